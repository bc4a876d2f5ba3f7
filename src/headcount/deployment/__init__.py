"""From measured numbers to a deployment: advice, its rehearsal by simulation, configuration, and its proof by test.

Knows nothing of how runs came to be; everything it says traces to a figure in one of them.
"""
