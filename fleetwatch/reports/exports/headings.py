"""How columns of files are called for people: in words, with their unit. Pure.

CSV and the API keep the machine's names: `useful_gpu_hours` is "Useful, GPU-hours" in Excel.
"""

HOURS = "gpu_hours"
USD = "_usd"
UTC = "_utc"
NAMES = {
    "gpu_hours": "GPU-hours",
    "usd_per_gpu_hour": "US dollars per GPU-hour",
    "month": "Month",
    "from_utc": "From (UTC)",
    "to_utc": "To (UTC)",
    "before_from_utc": "Before, from (UTC)",
    "before_to_utc": "Before, to (UTC)",
    "team": "Team's short name",
    "team_name": "Team",
    "job": "Job id",
    "name": "Job",
    "gpu_model": "GPU model",
    "gpus": "GPUs",
    "busy_unverified_gpu_hours": "Busy, unverified, GPU-hours",
    "key": "Id",
    "share_of_cost": "Share of cost",
    "used_ratio": "Used, of the budget",
    "team_used_ratio": "Used, of the team's budget",
    "waste_certain_usd": "Certain waste, US dollars",
    "waste_probable_usd": "Probable waste, US dollars",
    "waste_potential_usd": "Potential, US dollars",
    "priced_gpu_hours": "With a rate, GPU-hours",
    "there_gpu_hours": "There, GPU-hours",
    "contract_usd_per_gpu_hour": "By contract, US dollars per GPU-hour",
    "rates_usd_per_gpu_hour": "At the rates, US dollars per GPU-hour",
    "by_contract_usd": "By contract, US dollars",
    "rate_book_usd": "At the rates, US dollars",
    "by_contract_less_rates_usd": "By contract less at the rates, US dollars",
    "unheld_gpu_hours": "There, unallocated, GPU-hours",
    "unheld_usd": "There, unallocated, US dollars",
    "missing_gpu_hours": "Not delivered, GPU-hours",
    "beside": "Beside the cost",
    "beside_usd": "Beside the cost, US dollars",
    "cost_to_the_cent_usd": "Cost to the cent, US dollars",
    "wasted_to_the_cent_usd": "Wasted to the cent, US dollars",
    "beside_to_the_cent_usd": "Beside the cost, to the cent, US dollars",
    "before_cost_usd": "Cost before, US dollars",
}


def heading(column: str) -> str:
    """The column's name as people read it."""
    if column in NAMES:
        return NAMES[column]
    if column.endswith(f"_{HOURS}"):
        return f"{_words(column.removesuffix(f'_{HOURS}'))}, GPU-hours"
    if column.endswith(USD):
        return f"{_words(column.removesuffix(USD))}, US dollars"
    return _words(column)


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def is_summed(column: str) -> bool:
    """Whether its lines have a sum: hours and dollars, but what says the same on each line (a
    team's budget), and prices.
    """
    return column.endswith((HOURS, USD)) and not column.startswith("team_")
