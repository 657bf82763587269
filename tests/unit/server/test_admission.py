from __future__ import annotations

import asyncio

import pytest

from hpcllm.errors import BusyError
from hpcllm.server.admission import Admission, Place
from tests.unit.server.helpers import run


def test_callers_are_served_in_order() -> None:
    async def scenario() -> list[str]:
        queue, served = Admission(parallel=1, waiting=5), []

        async def call(name: str, place: Place) -> None:
            await place.wait()
            served.append(name)
            await asyncio.sleep(0)
            place.release()

        places = [(name, queue.reserve()) for name in "abcd"]
        assert [place.ahead for _, place in places] == [0, 0, 1, 2]
        await asyncio.gather(*(call(name, place) for name, place in reversed(places)))
        assert (queue.running, queue.waiting) == (0, 0)
        return served

    assert run(scenario()) == ["a", "b", "c", "d"]


def test_one_too_many_is_sent_away() -> None:
    async def scenario() -> None:
        queue = Admission(parallel=2, waiting=1)
        held = [queue.reserve() for _ in range(3)]
        assert (queue.running, queue.waiting) == (2, 1)
        with pytest.raises(BusyError, match=r"1 others are waiting for the model: try again in 4"):
            queue.reserve()
        held[2].release()  # the one that waits leaves
        queue.reserve()

    run(scenario())


def test_no_waiting_at_all() -> None:
    async def scenario() -> None:
        queue = Admission(parallel=1, waiting=0)
        place = queue.reserve()
        with pytest.raises(BusyError):
            queue.reserve()
        place.release()
        await queue.reserve().wait()

    run(scenario())


def test_a_cancelled_waiter_leaves_its_place() -> None:
    async def scenario() -> None:
        queue = Admission(parallel=1, waiting=5)
        first, second, third = (queue.reserve() for _ in range(3))
        waiting = asyncio.create_task(second.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert queue.waiting == 1
        first.release()
        await third.wait()
        assert (queue.running, queue.waiting) == (1, 0)

    run(scenario())


def test_a_waiter_that_is_cancelled_at_its_turn_passes_it_on() -> None:
    async def scenario() -> None:
        queue = Admission(parallel=1, waiting=5)
        first, second, third = (queue.reserve() for _ in range(3))
        waiting = asyncio.create_task(second.wait())
        await asyncio.sleep(0)
        first.release()  # it is the second's turn now, which it has not noticed
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await third.wait()
        assert (queue.running, queue.waiting) == (1, 0)

    run(scenario())


def test_releasing_twice_frees_one_place() -> None:
    async def scenario() -> None:
        queue = Admission(parallel=1, waiting=5)
        first, second, third = (queue.reserve() for _ in range(3))
        first.release()
        first.release()
        assert (second.started is not None, third.started) == (True, None)

    run(scenario())


def test_the_time_to_come_back_follows_the_queue_and_the_durations() -> None:
    async def scenario() -> list[float]:
        queue = Admission(parallel=1, waiting=50)
        times = [queue.retry_after_s()]
        places = [queue.reserve() for _ in range(20)]
        times.append(queue.retry_after_s())
        for place in places:
            place.release()  # each took no time
        times.append(queue.retry_after_s())
        return times

    # 4 s for one turn; 19 waiting and oneself; the mean after 20 quick turns is 4 * 0.8**20 = 0.05.
    assert run(scenario()) == [4, 80, 1]


@pytest.mark.parametrize(("parallel", "waiting"), [(0, 1), (1, -1)])
def test_impossible_sizes(parallel: int, waiting: int) -> None:
    with pytest.raises(ValueError, match="parallel must be >= 1"):
        Admission(parallel=parallel, waiting=waiting)
