"""`--wait`: a sender stays until it is known what became of its items, and tells that."""

from gateway.cli.common import DONE, SOME_FAILED, TIMED_OUT, item_text, say, say_json, warn
from gateway.handoff.awaiting import Awaiting, Fate
from gateway.handoff.producer import Producer
from protocol.procedures.publish import Published
from protocol.states import State


def wait_for(producer: Producer, sent: list[Published], patience: float | None, *, as_json: bool) -> int:
    """Waits for each item in turn, all together for `patience` seconds, and tells their fates; the exit code that they mean.

    Interrupted, the items are left as they are, and a note on the KeyboardInterrupt says so.
    """
    clock = producer.driver.clock
    until = None if patience is None else clock.monotonic() + patience
    awaiting = Awaiting(producer.driver, producer.rules, lambda text: warn(f"dropgate: waiting on, trying again: {text}"))
    worst = DONE
    for number, published in enumerate(sent):
        try:
            fate = awaiting.wait(published, until)
        except KeyboardInterrupt as error:
            left = ", ".join(_title(producer, one) for one in sent[number:])
            error.add_note(f"{left}: published, and left as it is; only the waiting has ended")
            raise
        _tell(producer, published, fate, as_json=as_json)
        worst = max(worst, DONE if fate.over and not fate.failed else SOME_FAILED if fate.over else TIMED_OUT)
    return worst


def _title(producer: Producer, published: Published) -> str:
    return item_text(producer.rules.grammar, published.item.group, published.item.number)


def _tell(producer: Producer, published: Published, fate: Fate, *, as_json: bool) -> None:
    title = _title(producer, published)
    if as_json:
        receipt = None if fate.receipt is None else fate.receipt.model_dump(mode="json", exclude_defaults=True)
        fields: dict[str, object] = {
            "item": title,
            "outcome": fate.outcome,
            "timed_out": not fate.over,
            "state": fate.state.word if fate.state is not None else None,
            "error": fate.text if fate.failed else None,
            "receipt": receipt,
            "reason": fate.reason or None,
        }
        say_json({key: value for key, value in fields.items() if value is not None})
    elif fate.over:
        say(f"{title}  {fate.outcome}  {fate.text}".rstrip())
    if not fate.over:
        warn(f"dropgate: {title}: not over yet when the time was up: {_so_far(fate)}", style="red")


def _so_far(fate: Fate) -> str:
    if fate.receipt is not None:
        answers = ", ".join(f"{name}: {one.outcome}" for name, one in sorted(fate.receipt.destinations.items()))
        return f"{fate.receipt.outcome}, and a receipt is still to come" + (f" ({answers})" if answers else "")
    if fate.state is None:
        return "it is not in the drop any more, and left no receipt; somebody has archived or moved it"
    return {
        State.READY: "ready, and nobody has taken it yet",
        State.CLAIMED: "claimed; its consumer is at it",
        State.DONE: "processed, and still being put away",
        State.AFTER: "an after image, and its receipt is still to come",
        State.ERROR: "an error image, and still being put away",
    }.get(fate.state, fate.state.word)
