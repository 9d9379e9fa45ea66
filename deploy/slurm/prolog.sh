#!/bin/sh
# Slurm prolog: notes which job has which GPU, for the FleetWatch agent (and for jobstats and dcgm-exporter, which read the
# same files). With it the agent knows who holds a GPU from the job's first second on, and also while the controller is away.
#
# In this order, or nodes are drained: where slurm.conf names a folder and a node has no file in it, every job's prolog
# fails there ("Unable to create list of paths"), the job is held and the node taken out of service.
#   1. on every node, also those that are down now or that are installed later:
#      install -D -m 755 deploy/slurm/prolog.sh /etc/slurm/prolog.d/50-fleetwatch.sh
#   2. slurm.conf:  Prolog=/etc/slurm/prolog.d/*
#                   PrologFlags=Alloc,Contain    (so that it runs when the job gets its nodes, not at its first step)
#   3. scontrol reconfigure
# To remove it the other way round: slurm.conf, scontrol reconfigure, and only then the files.
#
# One file per GPU, named by Slurm's index or by a MIG instance's UUID, holding "jobid uid". SLURM_JOB_GPUS counts all
# GPUs of the node; CUDA_VISIBLE_DEVICES would not do, a job sees its own GPUs from 0 on. Parts of a GPU (shards) need no
# file: the agent asks Slurm for them.
# A prolog that fails drains the node, so this one never does.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
folder=${FLEETWATCH_GPUSTAT:-/run/gpustat}
# dcgm-exporter's --hpc-job-mapping-dir, where it is in use: one file per GPU, a job id per line.
mapping=${DCGM_HPC_JOB_MAPPING_DIR:-}

umask 022
mkdir -p "$folder" 2>/dev/null
for gpu in $(printf '%s' "${SLURM_JOB_GPUS:-}" | tr ',' ' ' | tr -cd '0-9A-Za-z -'); do
    # written aside and moved, so that nobody reads half of it
    { printf '%s %s\n' "$SLURM_JOB_ID" "${SLURM_JOB_UID:-}" > "$folder/.$gpu.$$" && mv -f "$folder/.$gpu.$$" "$folder/$gpu"; } 2>/dev/null
    case "$gpu" in *[!0-9]*) continue ;; esac
    [ -z "$mapping" ] || [ ! -d "$mapping" ] || printf '%s\n' "$SLURM_JOB_ID" >> "$mapping/$gpu" 2>/dev/null
done
exit 0
