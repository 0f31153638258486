#!/bin/sh
# After a job, on each of its nodes: waits for what still drains, brings home what dead processes have left, and takes
# the node out of service if bytes are left, so that an operator looks at it before the staging area is wiped.
#
# In slurm.conf, for an installation in /opt/forebay: Epilog=/opt/forebay/share/forebay/slurm/epilog.sh. It runs as
# root, and asks as the job's user, for the job's processes only. slurmd gives it no PATH, or a short one.
#
# Its exit status is 0: what it could not do is in the system's log. It is 1 if bytes are left and scontrol cannot be
# run; slurmd itself then takes the node out of service.

# The command. Empty: bin/forebay of the installation that this script lies in, else in /opt/forebay, /usr/local or
# /usr, else the one on the PATH.
forebay=
# Seconds to wait; below slurm.conf's BatchStartTimeout and PrologEpilogTimeout.
seconds=${DRAIN_TIMEOUT:-300}

PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin
export PATH
[ -n "$SLURM_JOB_USER" ] || exit 0

say() {
    logger -t forebay --size 16KiB -- "job $SLURM_JOB_ID, user $SLURM_JOB_USER: $1" || echo "forebay: $1" >&2
}

prefix=$(dirname -- "$(readlink -f -- "$0")")/../../..
for command in "$forebay" "$prefix/bin/forebay" /opt/forebay/bin/forebay /usr/local/bin/forebay /usr/bin/forebay \
    "$(command -v forebay)"; do
    [ -x "$command" ] && [ -f "$command" ] && break
    command=
done
if [ -z "$command" ]; then
    say "forebay is not installed here, so nothing was drained: name the command in $0"
    exit 0
fi

# The status is the last line, so that a failure of runuser is not taken for one. In the root folder: the user may not
# look into slurmd's.
cd / || exit 0
report=$(runuser -u "$SLURM_JOB_USER" -- /bin/sh -c '"$@"; echo "$?"' sh \
    "$command" drain --all --timeout "$seconds" 2>&1)
status=${report##*
}
case $status in
0) exit 0 ;;
1) reason="staged bytes of job $SLURM_JOB_ID are left" ;;
# 3: a directory could not be read. 70, and from 128 on: it ended before it could tell.
3 | 70 | 12[89] | 1[3-9][0-9] | 2[0-9][0-9]) reason="whether staged bytes of job $SLURM_JOB_ID are left is not known" ;;
*)
    say "forebay drain did not run, so nothing was drained: $report"
    exit 0
    ;;
esac
# The report names each file, and what to do.
say "$reason: $report"
scontrol update nodename="$SLURMD_NODENAME" state=drain reason="forebay: $reason" || exit 1
