import math

import pytest

from agent.sources.dcgm.prometheus_text import MAX_LINE, parse


def only(line):
    parsed = parse(line)
    assert (len(parsed.samples), parsed.unparsed) == (1, 0), parsed
    return parsed.samples[0]


def test_a_line_is_a_name_labels_and_a_number():
    sample = only('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 97')

    assert (sample.name, sample.labels, sample.text, sample.value) == (
        "DCGM_FI_DEV_GPU_UTIL",
        {"gpu": "0", "UUID": "GPU-1"},
        "97",
        97.0,
    )


@pytest.mark.parametrize(
    "line", ["up 1", "up{} 1", "  up   1  ", "up 1 1794000000000", "up{} 1 -5", "up\t1", "up{ } 1"]
)
def test_labels_and_a_time_stamp_may_be_absent(line):
    assert (only(line).labels, only(line).value) == ({}, 1.0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-05", 1e-05),
        ("5.5518E+09", 5.5518e9),
        ("+Inf", math.inf),
        ("-Inf", -math.inf),
        (".5", 0.5),
        ("3.", 3.0),
        ("-0", 0.0),
    ],
)
def test_numbers_are_go_s(text, value):
    assert only("x " + text).value == value


def test_not_a_number_is_a_number():
    assert math.isnan(only("x NaN").value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"a\"b", 'a"b'),
        (r"C:\\temp\\", "C:\\temp\\"),
        (r"one\ntwo", "one\ntwo"),
        (r"\\n", "\\n"),
        ("a}b{c,d=e", "a}b{c,d=e"),
        ("München", "München"),
        ("", ""),
    ],
)
def test_labels_may_hold_anything_escaped(written, meant):
    assert only('x{a="%s",b="2"} 1' % written).labels == {"a": meant, "b": "2"}


def test_spaces_and_a_last_comma_in_labels_are_allowed():
    assert only('x { a = "1" , b="2", } 1').labels == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    "line",
    [
        'x{a="1"}',  # torn before its number
        'x{a="1',
        'x{a="1" 1',
        "x{a=1} 1",
        'x{a="1"b="2"} 1',
        'x{a="1"}} 1',
        "x one",
        "x 1_000",
        "x 0x10",
        "x infinity",
        "x 1 2 3",
        "x",
        '{a="1"} 1',
        "7up 1",
        "<html>",
        'x{a="%s"} 1' % ("y" * MAX_LINE),
    ],
)
def test_a_line_that_is_no_sample_costs_only_itself_and_is_counted(line):
    parsed = parse("before 1\n" + line + "\nafter 2\n")

    assert [sample.name for sample in parsed.samples] == ["before", "after"]
    assert (parsed.unparsed, parsed.first_unparsed) == (1, line[:200])


def test_comments_and_empty_lines_are_no_loss():
    parsed = parse("# HELP x what\n# TYPE x gauge\n\n   \nx 1\r\n")

    assert ([sample.text for sample in parsed.samples], parsed.unparsed) == (["1"], 0)
