"""What people do around flows: a broker for development, what is in its topics; later metrics, health, replay."""
