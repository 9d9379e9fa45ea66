#!/bin/sh
# Slurm epilog: takes away what prolog.sh noted of this job, and says in one line of the job's output what it made of its GPUs.
#
#   install -D -m 755 deploy/slurm/epilog.sh /etc/slurm/epilog.d/50-fleetwatch.sh      on each node; then scontrol reconfigure
# slurm.conf:  Epilog=/etc/slurm/epilog.d/*
#
# Files first, on every node, then slurm.conf: see prolog.sh, also on how to take them away.
#
# The line needs jobsummary.py, the hub's address and a token that may read (made on the hub, not on the node):
#   install -D -m 755 deploy/slurm/jobsummary.py /usr/local/lib/fleetwatch-agent/jobsummary.py
#   mkdir -p -m 700 /etc/fleetwatch-agent
#   echo 'FLEETWATCH_SERVER=https://fleetwatch.example.org' > /etc/fleetwatch-agent/summary.env
#   manage.py create_api_token USER --scope read > /etc/fleetwatch-agent/summary.token    (root's, mode 600)
# It is written once per job, by its first node, as soon as the hub has the job's last batch: usually within a minute of
# its end, two at most. The epilog does not wait for that, and without a hub that answers nothing is written.
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

# Comes back at once; who waits for the hub is a process of its own, which writes as the job's user, never as root.
if [ -f "$summary" ] && [ -f "$etc/summary.env" ]; then
    timeout 5 python3 "$summary" "$etc/summary.env" "$etc/summary.token" ${FLEETWATCH_SUMMARY_WAIT_S:-} </dev/null >/dev/null 2>&1
fi
exit 0
