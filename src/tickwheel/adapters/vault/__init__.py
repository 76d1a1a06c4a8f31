"""Sealing: `vault.KeyVault` under keys that `key_sources` brings from a file or a command."""
