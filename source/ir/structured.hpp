// What the builder, the printer and the parser share about ops other than elementwise ones.
#pragma once

#include <tuple>

#include "ir/graph.hpp"

namespace vkfuse::ir {

/// The payload that an op of add_structured carries, with its initial values; null for any other op.
const Payload* payload_form(const ops::OpRow& op);

/// Fails on negative dimensions, on symbols with facts that no size keeps, and on more elements than 64 bits can count;
/// `what` begins the sentence.
Result<void> check_dims(std::string_view what, const Shape& shape);

/// Fails where a gather, at these sizes, has elements to pick and none to pick from.
Result<void> check_picks(const Graph& graph, NodeId id, const SymbolValues& symbols);

/// A member of a payload and its name in the text form.
template <typename Owner, typename Member>
struct Attribute {
  const char* name;
  Member Owner::*member;
};
template <typename Owner, typename Member>
Attribute(const char*, Member Owner::*) -> Attribute<Owner, Member>;

/// A row for every payload: its attributes, in the order in which the text form writes them. Payloads whose text is no
/// list of names (inputs, constants) have none.
template <typename P>
extern const struct NoRow kAttributes;
template <>
inline constexpr std::tuple kAttributes<NoPayload>{};
template <>
inline constexpr std::tuple kAttributes<InputPayload>{};
template <>
inline constexpr std::tuple kAttributes<ConstantPayload>{};
template <>
inline constexpr std::tuple kAttributes<IotaPayload>{Attribute{"axis", &IotaPayload::axis}};
template <>
inline constexpr std::tuple kAttributes<RandomPayload>{Attribute{"seed", &RandomPayload::seed}};
template <>
inline constexpr std::tuple kAttributes<AxesPayload>{Attribute{"axes", &AxesPayload::axes}};
template <>
inline constexpr std::tuple kAttributes<AxisPayload>{Attribute{"axis", &AxisPayload::axis}};
template <>
inline constexpr std::tuple kAttributes<SlicePayload>{Attribute{"starts", &SlicePayload::starts},
                                                      Attribute{"steps", &SlicePayload::steps}};
template <>
inline constexpr std::tuple kAttributes<PadPayload>{Attribute{"low", &PadPayload::low},
                                                    Attribute{"high", &PadPayload::high}};
template <>
inline constexpr std::tuple kAttributes<WindowPayload>{
    Attribute{"axes", &WindowPayload::axes}, Attribute{"sizes", &WindowPayload::sizes},
    Attribute{"strides", &WindowPayload::strides}, Attribute{"dilations", &WindowPayload::dilations}};
template <>
inline constexpr std::tuple kAttributes<ScanPayload>{Attribute{"axis", &ScanPayload::axis},
                                                     Attribute{"exclusive", &ScanPayload::exclusive},
                                                     Attribute{"reverse", &ScanPayload::reverse}};
template <>
inline constexpr std::tuple kAttributes<SortPayload>{Attribute{"axis", &SortPayload::axis},
                                                     Attribute{"descending", &SortPayload::descending},
                                                     Attribute{"count", &SortPayload::count}};
template <>
inline constexpr std::tuple kAttributes<ScatterPayload>{Attribute{"mode", &ScatterPayload::mode}};
template <>
inline constexpr std::tuple kAttributes<UpdatePayload>{Attribute{"axis", &UpdatePayload::axis},
                                                       Attribute{"circular", &UpdatePayload::circular}};
template <>
inline constexpr std::tuple kAttributes<DotPayload>{
    Attribute{"batch_a", &DotPayload::batch_a}, Attribute{"batch_b", &DotPayload::batch_b},
    Attribute{"contract_a", &DotPayload::contract_a}, Attribute{"contract_b", &DotPayload::contract_b}};
template <>
inline constexpr std::tuple kAttributes<CustomPayload>{
    Attribute{"name", &CustomPayload::name}, Attribute{"code", &CustomPayload::code},
    Attribute{"ulps", &CustomPayload::ulps}, Attribute{"cost", &CustomPayload::cost}};
template <>
inline constexpr std::tuple kAttributes<KernelPayload>{
    Attribute{"name", &KernelPayload::name}, Attribute{"code", &KernelPayload::code},
    Attribute{"workgroup", &KernelPayload::workgroup}, Attribute{"tile", &KernelPayload::tile}};
template <>
inline constexpr std::tuple kAttributes<AllReducePayload>{Attribute{"ranks", &RankGroup::ranks},
                                                          Attribute{"stride", &RankGroup::stride}};
template <>
inline constexpr std::tuple kAttributes<GatherRanksPayload>{Attribute{"ranks", &RankGroup::ranks},
                                                            Attribute{"stride", &RankGroup::stride},
                                                            Attribute{"axis", &GatherRanksPayload::axis}};
template <>
inline constexpr std::tuple kAttributes<AllToAllPayload>{
    Attribute{"ranks", &RankGroup::ranks}, Attribute{"stride", &RankGroup::stride},
    Attribute{"split", &AllToAllPayload::split}, Attribute{"concat", &AllToAllPayload::concat}};
template <>
inline constexpr std::tuple kAttributes<BroadcastFromPayload>{Attribute{"ranks", &RankGroup::ranks},
                                                              Attribute{"stride", &RankGroup::stride},
                                                              Attribute{"root", &BroadcastFromPayload::root}};
template <>
inline constexpr std::tuple kAttributes<SendReceivePayload>{Attribute{"ranks", &RankGroup::ranks},
                                                            Attribute{"stride", &RankGroup::stride},
                                                            Attribute{"from", &SendReceivePayload::from}};
template <>
inline constexpr std::tuple kAttributes<ShardPayload>{Attribute{"mesh_axes", &ShardPayload::mesh_axes}};
template <>
inline constexpr std::tuple kAttributes<StagePayload>{Attribute{"stage", &StagePayload::stage},
                                                      Attribute{"mesh_axis", &StagePayload::mesh_axis}};
template <>
inline constexpr std::tuple kAttributes<MicroBatchPayload>{Attribute{"axis", &MicroBatchPayload::axis}};

/// Calls visit(name, member) for every attribute of a payload, which may be const, in the order of its row.
template <typename AnyPayload, typename Visit>
void each_attribute(AnyPayload& payload, Visit&& visit) {
  std::visit(
      [&](auto& one) {
        const auto visit_all = [&](const auto&... attribute) { (visit(attribute.name, one.*attribute.member), ...); };
        std::apply(visit_all, kAttributes<std::remove_cvref_t<decltype(one)>>);
      },
      payload);
}

// Shape rules of views, in views.cpp; of the others, in structured.cpp. ----------------------------

/// What a rule looks at; the count and dtypes of the operands are checked before.
struct Call {
  const ops::OpRow& op;
  std::span<const TensorType> operands;
  const Payload& payload;
  const Shape& shape;  ///< the declared one, where it is an attribute

  template <typename T>
  [[nodiscard]] const T& attributes() const {
    return std::get<T>(payload);
  }
};

/// The axis exists: "'cumsum' names axis 2, but f32[3, 4] has 2 axes."
Result<void> check_axis(const Call& call, int axis, const TensorType& type);
/// Each of them exists, and none is named twice.
Result<void> check_axes(const Call& call, std::span<const int> axes, const TensorType& type);

Result<Shape> reshape_shape(const Call& call);
Result<Shape> permute_shape(const Call& call);
Result<Shape> broadcast_shape(const Call& call);
Result<Shape> slice_shape(const Call& call);
Result<Shape> reverse_shape(const Call& call);
Result<Shape> pad_shape(const Call& call);
Result<Shape> concat_shape(const Call& call);
Result<Shape> unfold_shape(const Call& call);
Result<Shape> slice_assign_shape(const Call& call);

// Of what ranks do together, in collectives.cpp.
Result<Shape> same_on_ranks_shape(const Call& call);
Result<Shape> all_gather_shape(const Call& call);
Result<Shape> reduce_scatter_shape(const Call& call);
Result<Shape> all_to_all_shape(const Call& call);
Result<Shape> broadcast_from_shape(const Call& call);
Result<Shape> send_receive_shape(const Call& call);
Result<Shape> shard_shape(const Call& call);
Result<Shape> at_stage_shape(const Call& call);
Result<Shape> micro_batch_shape(const Call& call);

// Of ops whose code the user gives, in custom.cpp.
Result<Shape> custom_shape(const Call& call);
Result<Shape> kernel_shape(const Call& call);
/// Whether the code of `custom` is the body of a function and not an expression: it has a `return`.
bool is_function_body(const std::string& code);

}  // namespace vkfuse::ir
