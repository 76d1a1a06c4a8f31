"""Runs that waited because nobody had their handler: the first worker that has it gets them at once."""

from .remote_world import Remote, begin_all, remote_world


async def test_a_backlog_begins_within_two_seconds_of_the_first_worker() -> None:
    world = remote_world()
    scheduler = await world.start()
    for _ in range(40):
        await world.add(scheduler, world.job(handler="far"))
    await world.clock.advance(60_000)
    remote = await Remote(world, slots=40).enlist()
    begun = await begin_all(world, remote, 40, within_ms=2_000)
    assert {one.attempt for one in begun} == {1}
    await world.crash(scheduler)


async def test_what_came_due_a_moment_ago_is_not_forgotten_for_seconds() -> None:
    world = remote_world()
    scheduler = await world.start()
    remote = await Remote(world).enlist()
    await world.add(scheduler, world.job(handler="far"))  # the session was not read yet
    await begin_all(world, remote, 1, within_ms=1_500)
    await world.crash(scheduler)
