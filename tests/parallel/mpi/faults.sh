#!/usr/bin/env bash
# Jobs that lose a rank: a rank that is killed at random places, that hangs, that has another program. Under MPICH every
# survivor has the error, which names the rank; under OpenMPI the whole job ends and says so. No process is left.
#   usage: faults.sh openmpi|mpich MPIEXEC JOB
#   VKFUSE_DEATHS=N      places at which a rank is killed (2)
set -euo pipefail
. "$(dirname "$0")/mpi.sh"

# The survivors' sentences name the last rank, the victim, or a rank that has told what it lost.
expect_errors() {
  local ranks=$1 rank
  for ((rank = 0; rank + 1 < ranks; ++rank)); do
    grep -Eq "^rank $rank: after [0-9]+ ms: .*rank" <<<"$said" || fail "rank $rank has no error"
    grep -A3 "^rank $rank: after" <<<"$said" | grep -Eq "collective [0-9]+ of the program" ||
      fail "the error of rank $rank names no collective"
  done
  grep -q "rank $((ranks - 1))" <<<"$said" || fail "no sentence names rank $((ranks - 1))"
}

# Any error ends a job: the last rank must have come to where it kills itself. mpiexec may end before it says so.
VKFUSE_DEATH=$(mktemp -u)
export VKFUSE_DEATH
trap 'rm -f "$VKFUSE_DEATH"' EXIT
expect_one_death() {
  [ -e "$VKFUSE_DEATH" ] || fail "no rank was killed"
  rm -f "$VKFUSE_DEATH"
}

deaths=${VKFUSE_DEATHS:-2}
for ((i = 0; i < deaths; ++i)); do
  ms=$((RANDOM % 150))
  launch 3 die "$ms" 400
  [ "$status" != 0 ] || fail "a job of which a rank was killed after $ms ms ended well"
  expect_one_death
  [ "$mpi" = mpich ] || continue
  launch_apart 3 die "$ms" 400
  expect_one_death
  [ "$(grep -c "^a rank ended with 137" <<<"$said")" = 1 ] || fail "not one rank was killed"
  expect_errors 3
done
# OpenMPI ends a job of which a process leaves without MPI_Finalize, before the others have said what they saw.
if [ "$mpi" = openmpi ]; then
  echo "$mpi: $deaths deaths end the job, and no process is left"
  exit
fi
launch_apart 2 differ
for rank in 0 1; do
  grep -q "^rank $rank: Rank $((1 - rank)) has another program than rank $rank" <<<"$said" ||
    fail "rank $rank does not see that programs differ"
done
launch_apart 3 hang 1
expect_errors 3
launch_apart 3 hang 2
grep -Eq "^rank 0: after .* rank 1 and rank 2 until" <<<"$said" || fail "rank 0 does not name both"
echo "$mpi: $deaths deaths, a rank that hangs and one that differs are errors"
