# Sourced: how each MPI starts a job on this machine, and what must be true after one.
#   most=S                seconds that a job may take (60)
#   launch N WORD...      runs the job with N ranks; $status and $said are what came of it
#   launch_apart N WORD...  the same where the death of a rank is not told to mpiexec: each rank is a child of a shell
#                           that ends well, and takes no notice of SIGUSR1. The process manager of MPICH 4.0.2 ends
#                           the survivors even with -disable-auto-cleanup: its proxy sends SIGUSR1 when the socket of a
#                           rank closes, and SIGKILL when one ends badly. Then there is no survivor to look at.
mpi=$1 mpiexec=$2 job=$3
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 VKFUSE_CACHE=${VKFUSE_CACHE:-off}
case $mpi in
  # Ranks share cores with each other: they give them up while they wait. Shared memory alone carries bytes.
  openmpi)
    how=(--oversubscribe --mca mpi_yield_when_idle 1 --mca btl self,vader --mca btl_vader_single_copy_mechanism none)
    ;;
  mpich) how=(-disable-auto-cleanup) ;;
  *) echo "There is no way to start jobs of '$mpi'."; exit 64 ;;
esac

launch() {
  local ranks=$1
  shift
  start "$ranks" "$job" "$@"
}

launch_apart() {
  local ranks=$1
  shift
  start "$ranks" bash -c 'trap "" USR1; "$@"; echo "a rank ended with $?"' bash "$job" "$@"
}

start() {
  local ranks=$1
  shift
  status=0
  SECONDS=0
  local most=${most:-60}
  said=$(timeout --kill-after=5 "$most" "$mpiexec" "${how[@]}" -n "$ranks" "$@" 2>&1) || status=$?
  # The status says nothing: that of a job whose rank was killed is 137, too.
  [ "$SECONDS" -lt "$most" ] || fail "the job did not end: $*"
  none_left "$@"
}

fail() {
  echo "$mpi: $1"
  echo "--- the job ended with $status and said:"
  echo "$said"
  exit 1
}

# No process of the job, a second after it: mpiexec may end before the ranks that it has told to.
none_left() {
  local try
  for try in 1 2 3 4 5 6 7 8 9 10; do
    ranks_left | grep -q . || return 0
    sleep 0.3
  done
  fail "processes are left of $*: $(ranks_left | tr '\n' ' ')"
}

# Those of this job alone: other tests may run the same program with other words at the same time.
ranks_left() {
  local folder
  for folder in /proc/[0-9]*; do
    if [ "$(cat "$folder/environ" 2>/dev/null | tr "\\0" " " | grep -o "VKFUSE_JOB=$VKFUSE_JOB ")" ] &&
      [ "$(readlink "$folder/exe" 2>/dev/null)" = "$(readlink -f "$job")" ]; then
      echo "${folder#/proc/}"
    fi
  done
}
VKFUSE_JOB="job$$"
export VKFUSE_JOB
