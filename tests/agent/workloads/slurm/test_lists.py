import pytest

from agent.readings import GPUInfo, SchedulerError
from agent.workloads.slurm import devices
from agent.workloads.slurm.lists import MAX_HOSTS, Grant, gpu_count, grants, hosts, indices, split


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n01", ["n01"]),
        ("n[01-03,07]", ["n01", "n02", "n03", "n07"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[099-101]", ["n099", "n100", "n101"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("n[1-2]-ib,login", ["n1-ib", "n2-ib", "login"]),
        ("a,b[1,3],c", ["a", "b1", "b3", "c"]),
        ("", []),
    ],
)
def test_a_list_of_hosts_is_expanded_in_its_order(text, expected):
    assert hosts(text) == expected


def test_a_list_of_a_million_hosts_is_refused():
    with pytest.raises(ValueError, match="more than"):
        hosts("n[1-2000]x[1-2000]")


def test_as_many_hosts_as_are_allowed_are_taken():
    assert len(hosts(f"n[1-{MAX_HOSTS}]")) == MAX_HOSTS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:a100:2(IDX:0-1)", Grant("gpu", 2, {0: 1.0, 1: 1.0})),
        ("gpu:4(IDX:0-3)", Grant("gpu", 4, {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0})),
        ("gpu:a100_3g.20gb:1(IDX:5)", Grant("gpu", 1, {5: 1.0})),
        ("gpu:a100:2(IDX:1,3)", Grant("gpu", 2, {1: 1.0, 3: 1.0})),
        ("gpu:tesla:0(IDX:N/A)", Grant("gpu", 0)),
        ("gpu:2(IDX:N/A)", Grant("gpu", 2)),
        ("gpu:2(IDX:)", Grant("gpu", 2)),
        ("gpu(CNT:2)", Grant("gpu", 2)),
        ("gpu:a100(CNT:3)", Grant("gpu", 3)),
        ("gpu:a100:4(S:0-1)", Grant("gpu", 4)),
        ("gpu:2", Grant("gpu", 2)),
        ("gpu:a100", Grant("gpu", 1)),
        ("gres/gpu:a100:2", Grant("gpu", 2)),
        ("shard:a100:3(0/8,3/8)", Grant("shard", 3, {1: 0.375})),
        ("shard:4(4/8,0/8)", Grant("shard", 4, {0: 0.5})),
        ("shard:2(IDX:1)", Grant("shard", 2, {1: None})),
    ],
)
def test_a_granted_resource_names_its_devices_and_shares(text, expected):
    assert grants(text) == [expected]


def test_commas_within_brackets_do_not_part_resources():
    found = grants("gpu:a100:2(IDX:0,3),shard:t4:3(0/8,3/8),craynetwork:1")

    assert [(grant.name, grant.count) for grant in found] == [
        ("gpu", 2),
        ("shard", 3),
        ("craynetwork", 1),
    ]


@pytest.mark.parametrize(
    "text", ["", "(null)", "N/A", "gpu:a100:2(IDX:0-99999999)", "gpu:2(IDX:x)", "$(reboot)"]
)
def test_what_is_no_resource_is_left_out(text):
    assert [grant for grant in grants(text) if grant.shares] == []


def test_indices_go_as_far_as_a_node_has_devices():
    assert indices("1022-1023") == [1022, 1023]
    with pytest.raises(ValueError, match="no list"):
        indices("1023-1024")


def test_a_bracket_that_never_ends_keeps_the_rest_together():
    assert split("a(b,c") == ["a(b,c"]


@pytest.mark.parametrize(
    ("tres", "expected"),
    [
        ("cpu=16,mem=64G,gres/gpu=2", 2),
        ("cpu=16,gres/gpu=4,gres/gpu:a100=4", 4),
        ("gres/gpu:a100=2,gres/gpu:v100=1", 3),
        ("cpu=16,gres/gpu=0", 0),
        ("cpu=16,mem=64G", None),
        ("", None),
        ("gres/gpumem=80G", None),
    ],
)
def test_gpus_are_counted_once_whether_typed_or_not(tres, expected):
    assert gpu_count(tres) == expected


# Minor numbers go against the PCI order, as on many boards.
CROSSED = [
    GPUInfo("GPU-first", index=0, bus_id="00000000:1B:00.0", minor=2),
    GPUInfo("GPU-second", index=1, bus_id="00000000:3D:00.0", minor=3),
    GPUInfo("GPU-third", index=2, bus_id="00000000:9A:00.0", minor=0),
    GPUInfo("GPU-fourth", index=3, bus_id="0000:ba:00.0", minor=1),
]


def test_with_autodetect_the_index_is_the_order_on_the_bus_and_with_files_the_minor_number():
    on_bus = devices.order(CROSSED[::-1], devices.minors("AutoDetect=nvml\n", ["n01"]))
    by_file = devices.order(
        CROSSED, devices.minors("Name=gpu Type=a100 File=/dev/nvidia[0-3]\n", ["n01"])
    )

    assert on_bus == ["GPU-first", "GPU-second", "GPU-third", "GPU-fourth"]
    assert by_file == ["GPU-third", "GPU-fourth", "GPU-first", "GPU-second"]


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ("", None),
        ("# Name=gpu File=/dev/nvidia0\n", None),
        (
            (
                "NodeName=n[01-04] Name=gpu File=/dev/nvidia[2-3]\nNodeName=n05 Name=gpu"
                " File=/dev/nvidia[0-7]\n"
            ),
            [2, 3],
        ),
        (
            "NodeName=n05 AutoDetect=nvml\nNodeName=n01 Name=gpu File=/dev/nvidia1,/dev/nvidia0\n",
            [1, 0],
        ),
        (
            "AutoDetect=off\nname=gpu file=/dev/nvidia0 Cores=0-15\nName=gpu File=/dev/nvidia1\n",
            [0, 1],
        ),
        ("NodeName=n01 AutoDetect=nvml Name=gpu File=/dev/nvidia[0-3]\n", None),
        ("Name=gpu Type=x MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap30\n", [1]),
        ("Name=nic File=/dev/infiniband0\n", None),
    ],
)
def test_gres_conf_says_whether_files_or_the_bus_count(conf, expected):
    assert devices.minors(conf, ["n01"]) == expected


def test_files_that_are_no_list_are_an_error():
    with pytest.raises(SchedulerError, match="no list"):
        devices.minors("Name=gpu File=/dev/nvidia[0-x]\n", ["n01"])


def test_mig_instances_stand_where_their_gpu_stood():
    instances = [
        GPUInfo("MIG-a", parent_uuid="GPU-first"),
        GPUInfo("MIG-b", parent_uuid="GPU-first"),
    ]

    assert devices.order([*instances, *CROSSED], None) == [
        "MIG-a",
        "MIG-b",
        "GPU-second",
        "GPU-third",
        "GPU-fourth",
    ]


def test_a_file_whose_device_the_driver_does_not_show_keeps_its_index():
    assert devices.order(CROSSED[:3], [0, 1, 2, 3]) == [
        "GPU-third",
        None,
        "GPU-first",
        "GPU-second",
    ]
