#!/usr/bin/env bash
# Jobs that go well: programs of 1 to 4 ranks, large messages, a divided layer, MPI that the caller initialises, the C
# interface.
#   usage: runs.sh openmpi|mpich MPIEXEC JOB
set -euo pipefail
. "$(dirname "$0")/mpi.sh"

expect_all() {
  local ranks=$1 rank
  shift
  launch "$ranks" "$@"
  [ "$status" = 0 ] || fail "a job failed: $*"
  for ((rank = 0; rank < ranks; ++rank)); do
    grep -q "^rank $rank: ok" <<<"$said" || fail "rank $rank did not end well: $*"
  done
}
expect_all 2 sum 20
expect_all 4 sum 5
expect_all 1 sum 2
expect_all 2 large 2
expect_all 3 large 1
expect_all 2 layers
expect_all 4 layers
expect_all 2 ours
expect_all 2 c
echo "$mpi: jobs of 1, 2 and 4 ranks are right"
