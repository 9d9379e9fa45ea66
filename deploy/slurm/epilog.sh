#!/bin/sh
# Slurm epilog: takes away what prolog.sh noted of this job, and says in one line of the job's output what it made of its GPUs.
#
#   install -D -m 755 deploy/slurm/epilog.sh /etc/slurm/epilog.d/50-fleetwatch.sh      on each node; then scontrol reconfigure
# slurm.conf:  Epilog=/etc/slurm/epilog.d/*
#
# The line needs jobsummary.py, the hub's address and a token that may read (made on the hub, not on the node):
#   install -D -m 755 deploy/slurm/jobsummary.py /usr/local/lib/fleetwatch-agent/jobsummary.py
#   mkdir -p -m 700 /etc/fleetwatch-agent
#   echo 'FLEETWATCH_SERVER=https://fleetwatch.example.org' > /etc/fleetwatch-agent/summary.env
#   manage.py create_api_token USER --scope read > /etc/fleetwatch-agent/summary.token    (root's, mode 600)
# Without them, or when the hub does not answer within 2 s, nothing is printed.
# An epilog that fails drains the node, so this one never does.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
folder=${FLEETWATCH_GPUSTAT:-/run/gpustat}
mapping=${DCGM_HPC_JOB_MAPPING_DIR:-}
etc=${FLEETWATCH_ETC:-/etc/fleetwatch-agent}
summary=${FLEETWATCH_SUMMARY:-/usr/local/lib/fleetwatch-agent/jobsummary.py}

[ -n "${SLURM_JOB_ID:-}" ] || exit 0

# By what the files say, not by SLURM_JOB_GPUS: a job that was requeued elsewhere must not take another one's file away.
for file in "$folder"/*; do
    [ -f "$file" ] || continue
    job=
    read -r job _ < "$file" 2>/dev/null
    [ "$job" != "$SLURM_JOB_ID" ] || rm -f "$file" 2>/dev/null
done
if [ -n "$mapping" ]; then
    for file in "$mapping"/*; do
        [ -f "$file" ] && grep -qx "$SLURM_JOB_ID" "$file" 2>/dev/null || continue
        { grep -vx "$SLURM_JOB_ID" "$file" > "$file.$$"; mv -f "$file.$$" "$file"; } 2>/dev/null
    done
fi

# The job's output belongs to its user, who may have put a link in its place: it is written as that user, never as root.
output=${SLURM_JOB_STDOUT:-}
if [ -f "$summary" ] && [ -f "$etc/summary.env" ] && [ -f "$output" ]; then
    line=$(timeout 5 python3 "$summary" "$etc/summary.env" "$etc/summary.token" 2>/dev/null)
    if [ -n "$line" ] && [ "$(id -u)" = 0 ]; then
        [ -n "${SLURM_JOB_UID:-}" ] && [ -n "${SLURM_JOB_GID:-}" ] &&
            setpriv --reuid "$SLURM_JOB_UID" --regid "$SLURM_JOB_GID" --clear-groups \
                timeout 2 sh -c 'printf "%s\n" "$1" >> "$2"' sh "$line" "$output" 2>/dev/null
    elif [ -n "$line" ]; then
        timeout 2 sh -c 'printf "%s\n" "$1" >> "$2"' sh "$line" "$output" 2>/dev/null
    fi
fi
exit 0
