// A graph with every structured op, and symbolic dimensions where they are allowed.
#pragma once

namespace vkfuse::test {

inline constexpr const char* kEveryOp = R"(graph "every" {
  dim n min=1 max=512 multiple=4
  %0 = input "x" : f32[n, 12]
  %1 = reshape %0 : f32[3, n, 4]
  %2 = permute axes=[1, 0, 2] %1 : f32[n, 3, 4]
  %3 = broadcast %2 : f32[m, n, 3, 4]
  %4 = slice starts=[0, 0, 2, 0] steps=[1, 1, -2, 1] %3 : f32[m, n, 2, 4]
  %5 = reverse axes=[3, 1] %4 : f32[m, n, 2, 4]
  %6 = constant {0.5} : f32[]
  %7 = pad low=[0, 0, 1, 0] high=[0, 0, 0, 2] %5 %6 : f32[m, n, 3, 6]
  %8 = concat axis=2 %7 %7 %7 : f32[m, n, 9, 6]
  %9 = unfold axes=[3, 2] sizes=[3, 2] strides=[1, 2] dilations=[2, 1] %8 : f32[m, n, 4, 2, 3, 2]
  %10 = input "w" : f32[8, 8]
  %11 = input "u" : f32[2, 3]
  %12 = slice_assign starts=[7, 1] steps=[-3, 2] %10 %11 : f32[8, 8]
  %13 = input "i" : i32[n, 5]
  %14 = gather axis=1 %12 %13 : f32[8, n, 5]
  %15 = input "j" : i64[8, 1, 3]
  %16 = take_along axis=2 %14 %15 : f32[8, n, 3]
  %17 = reduce_sum axes=[0, 2] %16 : f32[n]
  %18 = reduce_prod axes=[1] %16 : f32[8, 3]
  %19 = reduce_mean axes=[1] %18 : f32[8]
  %20 = reduce_max axes=[0, 1, 2, 3, 4, 5] %9 : f32[]
  %21 = reduce_min axes=[2] %16 : f32[8, n]
  %22 = argmax axes=[1] %21 : i32[8]
  %23 = argmin axes=[0] %21 : i32[n]
  %24 = input "b" : bool[n, 2]
  %25 = reduce_any axes=[0] %24 : bool[2]
  %26 = reduce_all axes=[1] %24 : bool[n]
  %27 = cumsum axis=1 exclusive=false reverse=false %21 : f32[8, n]
  %28 = cumprod axis=0 exclusive=true reverse=false %27 : f32[8, n]
  %29 = cummax axis=0 exclusive=false reverse=true %28 : f32[8, n]
  %30 = cummin axis=1 exclusive=true reverse=true %29 : f32[8, n]
  %31 = dot batch_a=[0] batch_b=[1] contract_a=[] contract_b=[] %14 %10 : f32[8, n, 5, 8]
  %32 = dot batch_a=[] batch_b=[] contract_a=[2, 0] contract_b=[1, 0] %16 %18 : f32[n]
  %33 = argsort axis=0 descending=true count=3 %30 : i32[3, n]
  %34 = argsort axis=1 descending=false count=0 %30 : i32[8, n]
  %35 = scatter mode=add %0 %23 %0 : f32[n, 12]
  %36 = scatter mode=set %35 %23 %0 : f32[n, 12]
  %37 = update_rows axis=1 circular=true %36 %23 %0 : f32[n, 12]
  output "y" = %37
}
)";

}  // namespace vkfuse::test
