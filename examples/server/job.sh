#!/bin/sh
#SBATCH --nodes=9 --exclusive
# A staging server on a node of its own, and a program on the other eight. On one node, listen on a Unix socket instead,
# in a folder that mktemp -d has made, and leave out --nodes, --nodelist and --exclude.
node=$(scontrol show hostnames | head -n 1)
mkfifo "ready-$SLURM_JOB_ID"
srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" --mem=0 \
    forebay serve --listen 0.0.0.0:5000 --nls /local/ssd --clients-max 64 > "ready-$SLURM_JOB_ID" &
server=$!
read -r _ < "ready-$SLURM_JOB_ID" # its first line: it is ready
srun --overlap --nodes=8 --exclude="$node" forebay run -o "server=$node:5000" -- ./simulation
status=$?
# The first srun of a job is its step 0. A signal to srun itself would kill the server, and leave bytes in its log.
scancel --signal=TERM "$SLURM_JOB_ID.0"
wait "$server"
served=$?
rm "ready-$SLURM_JOB_ID"
[ "$status" -ne 0 ] || status=$served
exit "$status"
