"""Alarms: when something is wrong, it is shown, and somebody is told: once when it begins, and once when it is over.

    board -> rules (contents, places, expect) -> book -> notifier -> webhook, command
                      |                            |         |
                   memory                          +---------+---- state file

`Alarms` runs it. docs/alarms.md says what each alarm means.
"""

from gateway.service.alarms.alarm import Alarm
from gateway.service.alarms.book import Book, Changes
from gateway.service.alarms.state_file import default_state_file
from gateway.service.alarms.watch import Alarms

__all__ = ["Alarm", "Alarms", "Book", "Changes", "default_state_file"]
