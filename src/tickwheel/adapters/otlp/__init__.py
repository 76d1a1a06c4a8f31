"""OTLP: spans to a collector over HTTP."""
