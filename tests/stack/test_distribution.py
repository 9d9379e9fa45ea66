import pytest
from django.core.management import CommandError, call_command


@pytest.mark.django_db
def test_a_database_without_citus_is_not_distributed_and_says_what_is_missing():
    with pytest.raises(CommandError, match=r"has no Citus: CREATE EXTENSION citus in it"):
        call_command("distribute")
