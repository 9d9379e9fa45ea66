#!/bin/sh
# Installs the FleetWatch agent as a systemd service on a host with GPUs:
#   curl -fsSL https://HUB/agent/install.sh | { echo FLEETWATCH_TOKEN=TOKEN; cat; } | sudo sh -s -- --server https://HUB
# The shell reads the token as this script's first line: it stands in no process list and no log of sudo.
# Again, it upgrades: what is not given anew (token, node, labels, other settings) and the queue stay.
# --uninstall removes everything it made.
# With DESTDIR set, files go below that folder and systemd is left alone.
set -eu

SERVER="" TOKEN="" NODE="" LABELS="" DOCKER="" UNINSTALL=""
TOKEN="${FLEETWATCH_TOKEN:-}"
unset FLEETWATCH_TOKEN # nothing that is started here need know it
SHA256="@SHA256@"
ROOT="${DESTDIR:-}"
HOME_DIR="$ROOT/usr/local/lib/fleetwatch-agent"
LINK="$ROOT/usr/local/bin/fleetwatch-agent"
ETC="$ROOT/etc/fleetwatch-agent"
UNIT="$ROOT/etc/systemd/system/fleetwatch-agent.service"
STATE="$ROOT/var/lib/fleetwatch-agent"
SETTINGS="$ETC/environment"
PRIVATE_STATE="$ROOT/var/lib/private/fleetwatch-agent"

say() { printf '%s\n' "fleetwatch-agent: $*"; }
fail() { say "$*" >&2; exit "${CODE:-1}"; }
usage() {
    cat <<'USAGE'
install.sh --server URL --token-file FILE [--node NAME] [--labels a=b,c=d] [--docker] [--sha256 SUM]
install.sh               upgrades; token, settings and queue stay
install.sh --uninstall   removes all of it

  --server  the hub, such as https://fleetwatch.example.org
  --token-file  holds the token of the hub's install command, or one made for this node (/dev/stdin reads it from a pipe);
            without it FLEETWATCH_TOKEN counts, as the install command sets it
  --token   the same as an argument, which every user of this host can see while this runs
  --node    its name on the hub (default: this host's name)
  --labels  labels of the node, name=value, separated by commas
  --docker  let the agent ask Docker for the names of containers (the docker group, which is as good as root)
  --sha256  the checksum that the download must have (HUB/agent/fleetwatch-agent.pyz.sha256), if not the one in this script
USAGE
}

value_of() { if [ -z "${2:-}" ]; then CODE=2 fail "$1 needs a value"; fi; }

token_in() { # the file's first line is the token
    TOKEN=""
    { IFS= read -r TOKEN < "$1"; } 2>/dev/null || true # false too where the line does not end
    [ -n "$TOKEN" ] || CODE=2 fail "--token-file $1 can't be read, or is empty"
}

HUB="$SERVER" SERVER="" # the hub that served this script is the last choice
while [ $# -gt 0 ]; do
    case "$1" in
        --server) value_of "$@"; SERVER="${2%/}"; shift 2 ;;
        --token) value_of "$@"; TOKEN="$2"; shift 2 ;;
        --token-file) value_of "$@"; token_in "$2"; shift 2 ;;
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
    rm -rf "$HOME_DIR" "$ETC" "$STATE" "$PRIVATE_STATE" "$UNIT.d"
    systemd daemon-reload
    say "removed; revoke the node's token on the hub"
    exit 0
fi

# what an earlier installation was told, as it stands in its settings
kept() { if [ -f "$SETTINGS" ]; then sed -n "s/^$1=\"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" "$SETTINGS"; fi; }
SERVER="${SERVER:-$(kept FLEETWATCH_SERVER)}"
SERVER="${SERVER:-$HUB}"
case "$SERVER" in
    http://*|https://*) ;;
    *) CODE=2 fail "--server must be the hub's address, such as https://fleetwatch.example.org" ;;
esac
[ -n "$TOKEN$(kept FLEETWATCH_TOKEN)$(kept FLEETWATCH_TOKEN_FILE)" ] || { CODE=2 fail "--token is missing (or --token-file, FLEETWATCH_TOKEN): make one on the hub's settings page"; }
case "$SERVER$TOKEN$NODE$LABELS" in *[![:print:]]*|*[\"\\]*) CODE=2 fail "an argument holds a character that it can't" ;; esac
[ -n "$ROOT" ] || command -v systemctl >/dev/null || fail "this host has no systemd; run the file yourself: $SERVER/agent/fleetwatch-agent.pyz"
PYTHON=""
for NAME in /usr/bin/python3 python3 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8; do
    FOUND="$(command -v "$NAME" || true)"
    case "$FOUND" in ""|/root/*|/home/*) continue ;; esac # the service sees no home
    if "$FOUND" -c 'import ctypes, ssl, sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
        PYTHON="$FOUND"
        break
    fi
done
[ -n "$PYTHON" ] || fail "Python 3.8 or newer, with ssl and ctypes, is needed and was not found"

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
rm -f "$LINK"
printf '#!/bin/sh\nexec %s -I %s "$@"\n' "$PYTHON" "${HOME_DIR#"$ROOT"}/fleetwatch-agent.pyz" > "$LINK"
chmod 0755 "$LINK"
mkdir -p "$ETC"
chmod 0700 "$ETC"
keep() { # NAME VALUE: the setting with its new value; without one it stays as it is
    [ -n "$2" ] || return 0
    if [ -f "$SETTINGS" ]; then grep -v "^$1=" "$SETTINGS" > "$SETTINGS.new" || true; fi
    printf '%s="%s"\n' "$1" "$2" >> "$SETTINGS.new"
    mv -f "$SETTINGS.new" "$SETTINGS"
}
(
    umask 077
    rm -f "$SETTINGS.new"
    # systemd reads this file as root before it gives up its rights: the token needs no file that the agent may open,
    # and works where credentials (systemd 250) do not
    keep FLEETWATCH_SERVER "$SERVER"
    keep FLEETWATCH_TOKEN "$TOKEN"
    keep FLEETWATCH_NODE "$NODE"
    keep FLEETWATCH_LABELS "$LABELS"
)

cat > "$UNIT" <<UNIT_FILE
@UNIT@
UNIT_FILE
if [ -n "$DOCKER" ]; then
    mkdir -p "$UNIT.d"
    printf '[Service]\nSupplementaryGroups=docker\n' > "$UNIT.d/docker.conf"
fi
systemd daemon-reload
systemd enable fleetwatch-agent.service
systemd restart fleetwatch-agent.service
if [ -z "$ROOT" ]; then
    sleep 3
    systemctl is-active --quiet fleetwatch-agent.service || fail "installed, but it does not stay up: journalctl -u fleetwatch-agent"
fi
say "installed $("$PYTHON" "$HOME_DIR/fleetwatch-agent.pyz" --version); it reports to $SERVER"
say "check it: sudo fleetwatch-agent check        its log: journalctl -u fleetwatch-agent"
