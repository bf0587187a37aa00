#!/usr/bin/env bash
# Random programs under random shardings, by jobs of 2 to 4 processes: the parallel tests write them, each rank of a job
# runs all of its size, and the parallel tests compare with the reference of one rank.
#   usage: fuzz.sh openmpi|mpich MPIEXEC JOB TESTS
#   VKFUSE_FUZZ_CASES=N   programs (100)
set -euo pipefail
. "$(dirname "$0")/mpi.sh"
tests=$4 most=600

VKFUSE_JOB_FILES=$(mktemp -d)
export VKFUSE_JOB_FILES VKFUSE_FUZZ_CASES=${VKFUSE_FUZZ_CASES:-100}
trap 'rm -rf "$VKFUSE_JOB_FILES"' EXIT

# The parallel tests' part: one test, which must not be left out.
have() {
  said=$("$tests" --gtest_filter="ShardingFiles.$1" 2>&1) || fail "programs are not right: $1"
  grep -q "^\[  PASSED  \] 1 test" <<<"$said" || fail "$1 was left out"
}
have AreWritten
collectives=0
for folder in "$VKFUSE_JOB_FILES"/*; do
  launch "$(basename "$folder")" files "$folder"
  [ "$status" = 0 ] || fail "a job failed: $folder"
  found=$(sed -n 's/^rank 0: [0-9]* programs, \([0-9]*\) collectives$/\1/p' <<<"$said")
  collectives=$((collectives + found))
done
# Programs that send nothing show nothing.
[ "$collectives" -ge $((VKFUSE_FUZZ_CASES / 2)) ] || fail "$collectives collectives are too few"
have AreRight
echo "$mpi: $VKFUSE_FUZZ_CASES random programs with $collectives collectives are right"
