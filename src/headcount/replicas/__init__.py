"""How many replicas a number of people needs: a pool of simulated servers behind a router. Everything is simulated."""

from headcount.replicas.size import FleetSize, Plan, fleet_size

__all__ = ["FleetSize", "Plan", "fleet_size"]
