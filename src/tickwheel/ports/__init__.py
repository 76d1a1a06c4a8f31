"""What the services need from the world, as Protocols in domain verbs."""
