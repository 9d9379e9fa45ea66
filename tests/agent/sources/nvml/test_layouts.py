import pytest

from agent.sources.nvml.library import VALUE_LAYOUTS, VALUE_MEMBERS
from agent.sources.nvml.samples import LAYOUTS
from tests.agent.nvml_driver import pynvml


@pytest.mark.parametrize(("place", "member"), list(enumerate(VALUE_MEMBERS)))
def test_a_value_of_each_of_nvmls_types_is_read_as_the_bindings_read_it(place, member):
    sample = pynvml.c_nvmlSample_t()
    sample.timeStamp = 2**40
    setattr(sample.sampleValue, member, 99)
    field = pynvml.c_nvmlFieldValue_t()
    setattr(field.value, member, 99)

    assert LAYOUTS[place].unpack(bytes(sample)) == (2**40, 99)
    offset = pynvml.c_nvmlFieldValue_t.value.offset
    assert VALUE_LAYOUTS[place].unpack_from(bytes(field), offset) == (99,)


def test_a_number_below_zero_stays_below_zero():
    field = pynvml.c_nvmlFieldValue_t()
    field.value.siVal = -5

    place = VALUE_MEMBERS.index("siVal")
    assert VALUE_LAYOUTS[place].unpack_from(bytes(field.value)) == (-5,)
