"""HTTP webhooks: `executor.WebhookExecutor` makes attempts, `settings.WebhookSettings` bounds them."""
