"""One timer for an engine: ticks when one is due, however often it is put off or moved up."""

import asyncio

from unisono.runtime.timer import EngineTimer


class Engine:
    def __init__(self):
        self.due = None

    def next_timer(self):
        return self.due


def ticks(scenario):
    """When ticks came, after the beginning, with the moments at which a scenario wanted them."""

    async def main():
        loop, engine, came = asyncio.get_running_loop(), Engine(), []
        begun = loop.time()

        def tick():
            came.append(loop.time() - begun)
            engine.due = None

        timer = EngineTimer(engine, tick)

        def want(after_s):
            engine.due = None if after_s is None else begun + after_s
            timer.reset()

        await scenario(want)
        await asyncio.sleep(0.15)
        timer.cancel()
        return came

    return asyncio.run(main())


def test_what_is_put_off_comes_later_and_once():
    async def scenario(want):
        for after_s in (0.01, 0.02, 0.06):
            want(after_s)

    (came,) = ticks(scenario)
    assert 0.06 <= came < 0.15


def test_what_is_moved_up_comes_earlier_and_once():
    async def scenario(want):
        for after_s in (0.14, 0.1, 0.02):
            want(after_s)

    (came,) = ticks(scenario)
    assert 0.02 <= came < 0.1


def test_what_is_not_wanted_any_more_does_not_come():
    async def scenario(want):
        want(0.02)
        want(None)

    assert ticks(scenario) == []
