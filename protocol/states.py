"""The states of an item, and every step between them.

An item is always in exactly one state, and the state is the name of its token: the mark of the one file whose rename is the
transition. So a step is a rename, a crash before it changes nothing, and a crash after it loses nothing. Steps out of
CLAIMED start from the owner's own claim name, which nobody else can have: that name is the fence (PROTOCOL section 6).

    BEFORE ──publish──> READY ──claim──> CLAIMED ──complete──> DONE ──put away──> AFTER
                          ^                │  │ └────reap───> CLAIMED (another owner)
                          ├────release─────┘  └──fail──> ERROR
                          └──replay── AFTER, ERROR
"""

from enum import Enum


class State(Enum):
    """The state of an item; the value is the letter of its mark, "" for ready."""

    BEFORE = "B"
    READY = ""
    CLAIMED = "C"
    DONE = "D"
    AFTER = "A"
    ERROR = "E"

    @property
    def word(self) -> str:
        """The state's name as users read it."""
        return self.name.lower()


class Step(Enum):
    """A transition, by the name that procedures and messages use."""

    PUBLISH = "publish"
    CLAIM = "claim"
    REAP = "reap"
    RELEASE = "release"
    COMPLETE = "complete"
    PUT_AWAY = "put away"
    FAIL = "fail"
    REPLAY = "replay"


# With `signal = "none"` the payload is the token, so completing and putting away are one rename: CLAIMED to AFTER.
TRANSITIONS: dict[tuple[State, State], Step] = {
    (State.BEFORE, State.READY): Step.PUBLISH,
    (State.READY, State.CLAIMED): Step.CLAIM,
    (State.CLAIMED, State.CLAIMED): Step.REAP,
    (State.CLAIMED, State.READY): Step.RELEASE,
    (State.CLAIMED, State.DONE): Step.COMPLETE,
    (State.CLAIMED, State.AFTER): Step.COMPLETE,
    (State.DONE, State.AFTER): Step.PUT_AWAY,
    (State.CLAIMED, State.ERROR): Step.FAIL,
    (State.AFTER, State.READY): Step.REPLAY,
    (State.AFTER, State.CLAIMED): Step.REPLAY,
    (State.ERROR, State.READY): Step.REPLAY,
    (State.ERROR, State.CLAIMED): Step.REPLAY,
}
