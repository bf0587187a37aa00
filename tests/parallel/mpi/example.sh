#!/usr/bin/env bash
# The example, on two ranks: the divided layer is that of one rank, with one collective.
#   usage: example.sh openmpi|mpich MPIEXEC EXAMPLE
set -euo pipefail
. "$(dirname "$0")/mpi.sh"

launch 2
[ "$status" = 0 ] || fail "the example failed"
grep -q "^largest difference from one rank: [0-9.e-]*$" <<<"$said" || fail "the example says no difference"
[ "$(grep -c "^  all_reduce_sum " <<<"$said")" = 1 ] || fail "the plan has not one sum"
echo "$mpi: $(grep "^largest" <<<"$said")"
