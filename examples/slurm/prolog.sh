#!/bin/sh
# Fetches input files into the read cache of this node before the program begins. As a task prolog it runs as the user,
# on each node: srun --task-prolog=/opt/forebay/share/forebay/slurm/prolog.sh, or TaskProlog= in slurm.conf.
#
# The job names a file that lists them, one a line:
#
#     sbatch --export=ALL,INPUT_LIST=$HOME/inputs.txt,FOREBAY_NLS=/local/scratch job.sh
#
# What cannot be fetched is read from the file itself later: the job begins in any case. What is printed on standard
# output would be taken for commands by Slurm.

# The command. Empty: bin/forebay of the installation that this script lies in, else the one on the PATH.
forebay=

[ -n "$INPUT_LIST" ] && [ -r "$INPUT_LIST" ] || exit 0
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0 # one task of each node is enough
prefix=$(dirname -- "$(readlink -f -- "$0")")/../../..
for command in "$forebay" "$prefix/bin/forebay" "$(command -v forebay)" /opt/forebay/bin/forebay; do
    [ -x "$command" ] && [ -f "$command" ] && break
    command=
done
if [ -z "$command" ]; then
    echo "prolog: forebay is not installed here, so nothing was fetched" >&2
    exit 0
fi
while IFS= read -r file || [ -n "$file" ]; do
    [ -n "$file" ] || continue
    "$command" cache prefetch -- "$file" >/dev/null </dev/null || echo "prolog: $file is not in the read cache" >&2
done <"$INPUT_LIST"
exit 0
