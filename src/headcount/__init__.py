"""How many people can use a model server at once before it stops feeling good."""
