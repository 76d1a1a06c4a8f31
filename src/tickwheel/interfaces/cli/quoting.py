"""Commands that take a cron expression: the one argument that beginners forget to quote."""

import click


class CronCommand(click.Command):
    """Says what is missing when the shell has taken an expression apart."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if error.message.startswith("Got unexpected extra argument"):
                message = f"{error.message}; a cron expression needs quotes: '30 2 * * *'"
                raise click.UsageError(message, ctx) from error
            raise
