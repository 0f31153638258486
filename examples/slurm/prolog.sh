#!/bin/sh
# Fetches input files into the read cache of this node before the program begins. As a task prolog it runs as the user,
# on each node: srun --task-prolog=prolog.sh, or TaskProlog= in slurm.conf.
#
# The job names a file that lists them, one a line:
#
#     sbatch --export=ALL,INPUT_LIST=$HOME/inputs.txt,FOREBAY_NLS=/local/scratch job.sh
#
# What cannot be fetched is read from the file itself later: the job begins in any case. What is printed on standard
# output would be taken for commands by Slurm.
[ -n "$INPUT_LIST" ] && [ -r "$INPUT_LIST" ] || exit 0
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0 # one task of each node is enough
while IFS= read -r file; do
    forebay cache prefetch "$file" >/dev/null || echo "prolog: $file is not in the read cache" >&2
done <"$INPUT_LIST"
exit 0
