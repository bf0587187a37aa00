#!/usr/bin/env bash
# The benchmark's suite of several ranks at small sizes: every row is there and right.
#   usage: suite.sh openmpi|mpich MPIEXEC VKFUSE_BENCH
set -euo pipefail
. "$(dirname "$0")/mpi.sh"

launch 2 --suite parallel --transport mpi --most 1 --tokens 16 --width 64 --heads 4 --key-heads 2 --head-size 16 \
  --hidden 96 --layers 2 --batch 2 --seconds 0.02
[ "$status" = 0 ] || fail "the suite failed"
for row in "all_reduce 1024 KiB" "llama tensor" "llama data, 1 each" "llama data, 4 each" "llama training"; do
  grep -q "^$row *mpi" <<<"$said" || fail "there is no row '$row'"
done
! grep -q WRONG <<<"$said" || fail "a row is wrong"
echo "$mpi: the suite of several ranks is right"
