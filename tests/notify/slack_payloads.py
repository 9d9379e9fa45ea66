"""What Slack posts: a click and a window's reason as https://docs.slack.dev shows them."""

import json
from urllib.parse import urlencode

from fleetwatch.notify.slack_interaction import reason_modal


def click(**changes) -> bytes:
    """https://docs.slack.dev/reference/interaction-payloads/block_actions-payload, our button."""
    act = {
        "action_id": "ack",
        "block_id": "=qXel",
        "text": {"type": "plain_text", "text": "Acknowledge", "emoji": True},
        "value": "incident/7",
        "type": "button",
        "action_ts": "1548426417.840180",
    }
    facts = {
        "type": "block_actions",
        "team": {"id": "T9TK3CUKW", "domain": "example"},
        "user": {"id": "UA8RXUSPL", "username": "jtorrance", "team_id": "T9TK3CUKW"},
        "api_app_id": "AABA1ABCD",
        "token": "9s8d9as89d8as9d8as989",
        "container": {
            "type": "message",
            "message_ts": "1548261231.000200",
            "channel_id": "CBR2V3XEX",
            "is_ephemeral": False,
        },
        "trigger_id": "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
        "channel": {"id": "CBR2V3XEX", "name": "review-updates"},
        "message": {"bot_id": "BAH5CA16Z", "type": "message", "ts": "1548261231.000200"},
        "response_url": "https://hooks.slack.com/actions/AABA1ABCD/1232321423432/D09sSasdasdAS9091209",
        "actions": [act | changes.pop("act", {})],
    }
    return urlencode({"payload": json.dumps(facts | changes)}).encode()


def submission(
    reason: str | None = "A nightly benchmark\nstarts at 6", *, who: str = "UA8RXUSPL", **changes
) -> bytes:
    """https://docs.slack.dev/reference/interaction-payloads/view-interactions-payload, our
    window.
    """
    view = {
        "id": "VNHU13V36",
        "type": "modal",
        **reason_modal("incident/7"),
        "state": {"values": {"reason": {"reason": {"type": "plain_text_input", "value": reason}}}},
        "hash": "156663117.cd33ad1f",
    }
    facts = {
        "type": "view_submission",
        "team": {"id": "T9TK3CUKW", "domain": "example"},
        "user": {"id": who, "username": "jtorrance", "team_id": "T9TK3CUKW"},
        "view": view | changes,
        "trigger_id": "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
        "response_urls": [],
    }
    return urlencode({"payload": json.dumps(facts)}).encode()
