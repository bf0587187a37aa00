// Numerics prelude: see source/ops. Filled by the op table.
