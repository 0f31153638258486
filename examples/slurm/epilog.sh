#!/bin/sh
# After a job, on each of its nodes: waits for what still drains, brings home what dead processes have left, and drains
# the node if that fails, so that an operator looks at it before the staging area is used again or wiped.
#
# In slurm.conf: Epilog=/etc/slurm/epilog.sh. It runs as root, and asks for the job's user only.
#
# DRAIN_TIMEOUT: seconds; below slurm.conf's BatchStartTimeout and PrologEpilogTimeout.
[ -n "$SLURM_JOB_USER" ] || exit 0
report=$(runuser -u "$SLURM_JOB_USER" -- forebay drain --all --timeout "${DRAIN_TIMEOUT:-300}" 2>&1)
status=$?
[ $status = 0 ] && exit 0
# 1: bytes are in the staging area only; 3: it cannot be known. The report names each file, and what to do.
logger -t forebay "job $SLURM_JOB_ID, user $SLURM_JOB_USER: $report"
[ $status = 1 ] || [ $status = 3 ] || exit 0
scontrol update nodename="$SLURMD_NODENAME" state=drain reason="forebay: staged bytes of job $SLURM_JOB_ID are left"
exit 0
