#!/bin/sh
# Installs the FleetWatch agent as a systemd service on a host with GPUs:
#   curl -fsSL https://HUB/agent/install.sh | sudo sh -s -- --server https://HUB --token TOKEN
# Again, it upgrades. --uninstall removes everything it made.
# With DESTDIR set, files go below that folder and systemd is left alone.
set -eu

SERVER="" TOKEN="" NODE="" LABELS="" DOCKER="" UNINSTALL=""
SHA256="@SHA256@"
ROOT="${DESTDIR:-}"
HOME_DIR="$ROOT/usr/local/lib/fleetwatch-agent"
LINK="$ROOT/usr/local/bin/fleetwatch-agent"
ETC="$ROOT/etc/fleetwatch-agent"
UNIT="$ROOT/etc/systemd/system/fleetwatch-agent.service"
STATE="$ROOT/var/lib/fleetwatch-agent"
PRIVATE_STATE="$ROOT/var/lib/private/fleetwatch-agent"

say() { printf '%s\n' "fleetwatch-agent: $*"; }
fail() { say "$*" >&2; exit "${CODE:-1}"; }
usage() {
    cat <<'USAGE'
install.sh --server URL --token TOKEN [--node NAME] [--labels a=b,c=d] [--docker] [--sha256 SUM]
install.sh --uninstall

  --server  the hub, such as https://fleetwatch.example.org
  --token   the token of the hub's install command, or one made for this node
  --node    its name on the hub (default: this host's name)
  --labels  labels of the node, name=value, separated by commas
  --docker  let the agent ask Docker for the names of containers (the docker group, which is as good as root)
  --sha256  the checksum shown on the hub's page; the download must have it
USAGE
}

value_of() { [ $# -ge 2 ] && [ -n "$2" ] || { CODE=2 fail "$1 needs a value"; }; }

while [ $# -gt 0 ]; do
    case "$1" in
        --server) value_of "$@"; SERVER="${2%/}"; shift 2 ;;
        --token) value_of "$@"; TOKEN="$2"; shift 2 ;;
        --node) value_of "$@"; NODE="$2"; shift 2 ;;
        --labels) value_of "$@"; LABELS="$2"; shift 2 ;;
        --sha256) value_of "$@"; SHA256="$2"; shift 2 ;;
        --docker) DOCKER=yes; shift ;;
        --uninstall) UNINSTALL=yes; shift ;;
        -h|--help) usage; exit 0 ;;
        *) CODE=2 fail "unknown argument $1 (--help tells more)" ;;
    esac
done

[ -n "$ROOT" ] || [ "$(id -u)" = 0 ] || fail "run this as root (sudo)"

systemd() { [ -n "$ROOT" ] || systemctl "$@"; }

if [ -n "$UNINSTALL" ]; then
    systemd disable --now fleetwatch-agent.service 2>/dev/null || true
    rm -f "$UNIT" "$LINK"
    rm -rf "$HOME_DIR" "$ETC" "$STATE" "$PRIVATE_STATE"
    systemd daemon-reload
    say "removed; revoke the node's token on the hub"
    exit 0
fi

case "$SERVER" in
    http://*|https://*) ;;
    *) CODE=2 fail "--server must be the hub's address, such as https://fleetwatch.example.org" ;;
esac
[ -n "$TOKEN" ] || { CODE=2 fail "--token is missing: make one on the hub's settings page"; }
case "$SERVER$TOKEN$NODE$LABELS" in *[![:print:]]*|*[\"\\]*) CODE=2 fail "an argument holds a character that it can't" ;; esac
[ -n "$ROOT" ] || command -v systemctl >/dev/null || fail "this host has no systemd; run the file yourself: $SERVER/agent/fleetwatch-agent.pyz"
PYTHON="$(command -v python3 || true)"
[ -n "$PYTHON" ] || fail "python3 is missing: install Python 3.8 or newer"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 8))' || fail "$("$PYTHON" -V) is too old: Python 3.8 or newer is needed"

NEW="$(mktemp)"
trap 'rm -f "$NEW"' EXIT
say "fetching $SERVER/agent/fleetwatch-agent.pyz"
if command -v curl >/dev/null; then
    curl -fsSL --retry 3 -o "$NEW" "$SERVER/agent/fleetwatch-agent.pyz" || fail "the hub did not hand out the agent"
elif command -v wget >/dev/null; then
    wget -q -O "$NEW" "$SERVER/agent/fleetwatch-agent.pyz" || fail "the hub did not hand out the agent"
else
    fail "curl or wget is needed"
fi
FOUND="$("$PYTHON" -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$NEW")"
[ "$FOUND" = "$SHA256" ] || fail "the checksum is $FOUND, expected $SHA256: nothing was installed"

umask 022
mkdir -p "$HOME_DIR" "$(dirname "$LINK")" "$(dirname "$UNIT")"
# a running agent keeps the old file open until it is started anew
install -m 0755 "$NEW" "$HOME_DIR/fleetwatch-agent.pyz.new"
mv -f "$HOME_DIR/fleetwatch-agent.pyz.new" "$HOME_DIR/fleetwatch-agent.pyz"
ln -sf "${HOME_DIR#"$ROOT"}/fleetwatch-agent.pyz" "$LINK"
mkdir -p -m 0700 "$ETC"
(
    umask 077
    # systemd reads this file as root before it gives up its rights: the token needs no file that the agent may open,
    # and works where credentials (systemd 250) do not
    {
        printf 'FLEETWATCH_SERVER="%s"\n' "$SERVER"
        printf 'FLEETWATCH_TOKEN="%s"\n' "$TOKEN"
        [ -z "$NODE" ] || printf 'FLEETWATCH_NODE="%s"\n' "$NODE"
        [ -z "$LABELS" ] || printf 'FLEETWATCH_LABELS="%s"\n' "$LABELS"
    } > "$ETC/environment"
)
GROUPS_LINE=""
[ -z "$DOCKER" ] || GROUPS_LINE="SupplementaryGroups=docker"

cat > "$UNIT" <<UNIT_FILE
[Unit]
Description=FleetWatch agent
After=network-online.target nvidia-persistenced.service
Wants=network-online.target

[Service]
ExecStart=$PYTHON ${HOME_DIR#"$ROOT"}/fleetwatch-agent.pyz run
EnvironmentFile=${ETC#"$ROOT"}/environment
Environment=PYTHONUNBUFFERED=1
DynamicUser=yes
StateDirectory=fleetwatch-agent
$GROUPS_LINE
Restart=always
RestartSec=10
TimeoutStopSec=30
Nice=5
OOMScoreAdjust=500
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryMax=256M

[Install]
WantedBy=multi-user.target
UNIT_FILE
systemd daemon-reload
systemd enable fleetwatch-agent.service
systemd restart fleetwatch-agent.service
say "installed; it reports to $SERVER. Look at it: journalctl -u fleetwatch-agent; check: fleetwatch-agent check"
