"""Takes the pictures of the docs: `python -m tests.browser.pictures docs/img`."""

import sys
import tempfile
import time
from pathlib import Path

from tickwheel import Client

from ..interfaces.cli.server_process import ServerProcess, run_cli, wait_until
from .browsing import Visit, opened_browser

WIDTH, HEIGHT, PHONE_WIDTH = 1200, 800, 390


def fill(client: Client, url: str) -> dict[str, str]:
    """Jobs as a shop might have them, a minute of runs, and some failures."""
    hook = f"{url}/echo"

    def cron(name: str, expression: str, zone: str = "UTC", endpoint: str = hook, retries: int = 3) -> str:
        return client.schedule(
            job_name=name,
            schedule_type="CRON",
            cron_expression=expression,
            timezone=zone,
            retry_policy={"max_retries": retries, "initial_interval_sec": 1},
            target={"endpoint": endpoint},
            tags=["shop"],
        ).job_id

    nightly = cron("nightly-report", "30 2 * * *", "Europe/Berlin")
    poll = cron("poll-inbox", "*/5 * * * * *")
    cron("close-month", "0 18 L * *", "America/New_York")
    failing = cron("sync-crm", "*/15 * * * * *", endpoint=f"{url}/crm/contacts", retries=0)
    cron("import-prices", "*/20 * * * * *", endpoint="http://127.0.0.1:9/prices", retries=1)
    for number in range(1, 41):
        cron(f"hourly-{number}", "0 * * * *")
    for number in range(1, 120):
        client.schedule(
            job_name=f"remind-order-{8_800 + number}",
            delay_seconds=number * 97,
            priority="HIGH",
            target={"endpoint": hook},
        )
    return {"nightly": nightly, "poll": poll, "failing": failing}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as place,
        ServerProcess("--data", f"{place}/d", folder=Path(place)) as server,
    ):
        jobs = fill(server.client, server.url)
        wait_until(lambda: server.client.list_runs(jobs["failing"]).runs[3:], why="some have failed", within_s=90)
        run = server.client.list_runs(jobs["failing"]).runs[1].run_id
        server.client.pause(jobs["nightly"])
        server.client.resume(jobs["nightly"])
        hook = ("--webhook", "https://chat.example/hooks/on-call", "--tag", "shop")
        run_cli("notifications", "set", "on-call", "--on", "run.dead_lettered", *hook, url=server.url)
        sales = ("--webhook", "https://ops.example/sales", "--failures", "5", "--quiet", "1h", "--prefix", "sync-")
        run_cli("notifications", "set", "sales", "--on", "job.failing", *sales, url=server.url)
        places = {
            "overview": "/",
            "upcoming": "/upcoming",
            "jobs": "/jobs?order=due",
            "job": f"/jobs/{jobs['poll']}",
            "edit": f"/jobs/{jobs['nightly']}/edit",
            "run": f"/runs/{run}",
            "dead-letters": "/dead-letters",
            "objectives": "/objectives",
            "notifications": "/notifications",
            "workers": "/workers",
            "nodes": "/nodes",
            "tenants": "/tenants/default",
            "audit-log": "/audit-log",
        }
        with opened_browser() as browser:
            for name, address in places.items():
                shoot(
                    Visit(browser, server.url, width=WIDTH, height=HEIGHT),
                    address,
                    folder / f"dashboard-{name}.png",
                )
            shoot(
                Visit(browser, server.url, width=WIDTH, height=HEIGHT, dark=True),
                "/",
                folder / "dashboard-overview-dark.png",
            )
            shoot(
                Visit(browser, server.url, width=PHONE_WIDTH, height=HEIGHT),
                "/",
                folder / "dashboard-overview-phone.png",
            )


def shoot(visit: Visit, address: str, file: Path) -> None:
    page = visit.open(address)
    if "/edit" in address:
        page.get_by_label("Cron expression").fill("0 5 * * 1-5")
    time.sleep(1.5)  # so that what is asked for apart is there too
    page.screenshot(path=file)
    visit.close()
    print(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
