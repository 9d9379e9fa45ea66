"""Virtual GPUs of before have their boards now; where a month is closed its dollars do not move."""

from typing import Any

from django.db import migrations
from django.db.models import Max

from fleetwatch.inventory.gpu_models import facts_for
from fleetwatch.inventory.vgpu import slice_of


def find_boards(apps: Any, schema_editor: Any) -> None:
    models = apps.get_model("inventory", "GPUModel").objects
    closed_until = apps.get_model("ledger", "ClosedMonth").objects.aggregate(until=Max("end"))["until"]
    for model in models.filter(board=None):
        part = slice_of(model.name)
        if part is None or not part.board:
            continue
        board = facts_for(part.board)
        model.board, _ = models.get_or_create(name=board.name, defaults={"idle_w": board.idle_w, "limit_w": board.limit_w})
        model.board_share, model.board_from = part.share, closed_until
        model.save(update_fields=["board", "board_share", "board_from"])


class Migration(migrations.Migration):

    dependencies = [
        ('costs', '0023_examples_of_virtual_gpus'),
        ('inventory', '0013_boards_of_virtual_gpus'),
        ('ledger', '0017_idle_power_of_gpus'),
    ]

    operations = [migrations.RunPython(find_boards, migrations.RunPython.noop)]
