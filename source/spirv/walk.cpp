#include "spirv/walk.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.hpp"

namespace vkfuse::spirv {
namespace {

constexpr std::uint32_t kMagic = 0x07230203;
constexpr std::size_t kHeaderWords = 5;

enum Opcode : std::uint32_t {
  op_name = 5,
  op_type_bool = 20,
  op_type_int = 21,
  op_type_float = 22,
  op_type_vector = 23,
  op_type_matrix = 24,
  op_type_array = 28,
  op_type_struct = 30,
  op_type_pointer = 32,
  op_constant = 43,
  op_spec_constant = 50,
  op_function = 54,
  op_function_parameter = 55,
  op_function_call = 57,
  op_variable = 59,
  op_load = 61,
  op_store = 62,
  op_copy_memory = 63,
  op_access_chain = 65,
  op_in_bounds_access_chain = 66,
  op_ptr_access_chain = 67,
  op_in_bounds_ptr_access_chain = 70,
  op_decorate = 71,
  op_copy_object = 83,
  op_bitcast = 124,
  op_convert_u_to_ptr = 120,
  op_select = 169,
  op_atomic_load = 227,
  op_atomic_store = 228,
  op_atomic_xor = 242,
  op_phi = 245,
  op_matrix_load_khr = 4457,
  op_matrix_store_khr = 4458,
  op_matrix_load_nv = 5359,
  op_matrix_store_nv = 5360,
  op_matrix_load_tensor_nv = 5367,
  op_matrix_store_tensor_nv = 5368,
  op_atomic_float_min = 5614,
  op_atomic_float_max = 5615,
  op_atomic_float_add = 6035,
};

constexpr std::uint32_t kClassUniform = 2;
constexpr std::uint32_t kClassStorageBuffer = 12;
constexpr std::uint32_t kClassPhysical = 5349;
constexpr std::uint32_t kDecorationBufferBlock = 3;
constexpr std::uint32_t kDecorationBinding = 33;
constexpr std::uint32_t kDecorationSet = 34;

bool is_atomic(std::uint32_t opcode) {
  return (opcode >= op_atomic_load && opcode <= op_atomic_xor) || opcode == op_atomic_float_min ||
         opcode == op_atomic_float_max || opcode == op_atomic_float_add;
}

using Words = std::span<const std::uint32_t>;

struct Type {
  std::uint32_t bytes = 0;
  bool buffer_block = false;
  // of a pointer
  bool is_pointer = false;
  std::uint32_t storage = 0;
  std::uint32_t pointee = 0;
};

// A pointer value: its type, and the variable it comes from (0 when that is not known).
struct Pointer {
  std::uint32_t type = 0;
  std::uint32_t variable = 0;
};

class Walker {
 public:
  Result<std::vector<MemoryAccess>> walk(Words spirv) {
    if (spirv.size() < kHeaderWords || spirv[0] != kMagic) {
      return invalid("{} words do not start with the SPIR-V magic number.", spirv.size());
    }
    for (std::size_t at = kHeaderWords; at < spirv.size();) {
      const std::uint32_t length = spirv[at] >> 16;
      if (length == 0 || length > spirv.size() - at) {
        return invalid("SPIR-V word {} starts an instruction of {} words, beyond the module's {}.", at, length,
                       spirv.size());
      }
      // Absent operands read as 0, which is no id.
      operands_.assign(spirv.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                       spirv.begin() + static_cast<std::ptrdiff_t>(at + length));
      operands_.resize(std::max<std::size_t>(operands_.size(), 4), 0);
      count_ = length - 1;
      instruction(spirv[at] & 0xFFFFu);
      at += length;
    }
    return std::move(accesses_);
  }

 private:
  [[nodiscard]] std::uint32_t operand(std::size_t i) const { return operands_[i]; }

  void instruction(std::uint32_t opcode) {
    if (annotation(opcode) || type(opcode) || pointer(opcode)) return;
    access(opcode);
  }

  bool annotation(std::uint32_t opcode) {
    switch (opcode) {
      case op_name: names_[operand(0)] = text(1); return true;
      case op_decorate:
        if (operand(1) == kDecorationBinding) bindings_[operand(0)] = operand(2);
        if (operand(1) == kDecorationSet) sets_[operand(0)] = operand(2);
        if (operand(1) == kDecorationBufferBlock) types_[operand(0)].buffer_block = true;
        return true;
      case op_function: function_ = operand(1); return true;
      default: return false;
    }
  }

  bool type(std::uint32_t opcode) {
    switch (opcode) {
      case op_type_bool: types_[operand(0)].bytes = 4; return true;
      case op_type_int:
      case op_type_float: types_[operand(0)].bytes = operand(1) / 8; return true;
      case op_type_vector:
      case op_type_matrix: types_[operand(0)].bytes = types_[operand(1)].bytes * operand(2); return true;
      case op_type_array: types_[operand(0)].bytes = types_[operand(1)].bytes * constants_[operand(2)]; return true;
      case op_type_struct:
        for (std::size_t i = 1; i < count_; ++i) types_[operand(0)].bytes += types_[operand(i)].bytes;
        return true;
      case op_type_pointer:
        types_[operand(0)] = {.is_pointer = true, .storage = operand(1), .pointee = operand(2)};
        return true;
      case op_constant:
      case op_spec_constant: constants_[operand(1)] = operand(2); return true;
      default: return false;
    }
  }

  bool pointer(std::uint32_t opcode) {
    switch (opcode) {
      case op_variable: pointers_[operand(1)] = {operand(0), operand(1)}; return true;
      case op_access_chain:
      case op_in_bounds_access_chain:
      case op_ptr_access_chain:
      case op_in_bounds_ptr_access_chain:
      case op_copy_object: pointers_[operand(1)] = {operand(0), pointers_[operand(2)].variable}; return true;
      case op_function_parameter:
      case op_function_call:
      case op_select:
      case op_phi:
      case op_bitcast:
      case op_convert_u_to_ptr:
        if (types_[operand(0)].is_pointer) pointers_[operand(1)] = {operand(0), 0};
        return true;
      default: return false;
    }
  }

  void access(std::uint32_t opcode) {
    if (is_atomic(opcode)) return add(AccessKind::atomic, operand(opcode == op_atomic_store ? 0 : 2));
    switch (opcode) {
      case op_load:
        // What is loaded may itself be a pointer (a device address kept in a buffer).
        if (types_[operand(0)].is_pointer) pointers_[operand(1)] = {operand(0), 0};
        [[fallthrough]];
      case op_matrix_load_khr:
      case op_matrix_load_nv:
      case op_matrix_load_tensor_nv: return add(AccessKind::load, operand(2), opcode != op_load);
      case op_store:
      case op_matrix_store_khr:
      case op_matrix_store_nv:
      case op_matrix_store_tensor_nv: return add(AccessKind::store, operand(0), opcode != op_store);
      case op_copy_memory: add(AccessKind::load, operand(1)); return add(AccessKind::store, operand(0));
      default: return;
    }
  }

  void add(AccessKind kind, std::uint32_t pointer_id, bool is_matrix = false) {
    const Pointer pointer = pointers_[pointer_id];
    const Type& type = types_[pointer.type];
    if (!is_storage(type, pointer.variable)) return;
    MemoryAccess access{.binding = kUnknownBinding, .kind = kind, .bytes = is_matrix ? 0 : types_[type.pointee].bytes};
    if (const auto binding = bindings_.find(pointer.variable); binding != bindings_.end()) {
      access.binding = binding->second;
      access.set = sets_[pointer.variable];
    }
    access.function = names_[function_];
    accesses_.push_back(std::move(access));
  }

  // SPIR-V before 1.3 has storage buffers in the Uniform class, told apart by their block.
  bool is_storage(const Type& type, std::uint32_t variable) {
    if (type.storage == kClassStorageBuffer || type.storage == kClassPhysical) return true;
    if (type.storage != kClassUniform) return false;
    std::uint32_t block = types_[pointers_[variable].type].pointee;
    return types_[block].buffer_block;
  }

  // SPIR-V packs the bytes of a name into words, first byte lowest, zero at the end.
  [[nodiscard]] std::string text(std::size_t from) const {
    std::string name;
    for (std::size_t i = from; i < count_; ++i) {
      for (unsigned shift = 0; shift < 32; shift += 8) {
        const char letter = static_cast<char>(operands_[i] >> shift & 0xFFu);
        if (letter == 0) return name;
        name += letter;
      }
    }
    return name;
  }

  std::vector<std::uint32_t> operands_;
  std::size_t count_ = 0;
  std::map<std::uint32_t, Type> types_;
  std::map<std::uint32_t, Pointer> pointers_;
  std::map<std::uint32_t, std::uint32_t> constants_, bindings_, sets_;
  std::map<std::uint32_t, std::string> names_;
  std::uint32_t function_ = 0;
  std::vector<MemoryAccess> accesses_;
};

}  // namespace

Result<std::vector<MemoryAccess>> memory_accesses(std::span<const std::uint32_t> spirv) { return Walker().walk(spirv); }

int count_of(std::span<const MemoryAccess> accesses, AccessKind kind, std::uint32_t binding, std::uint32_t bytes) {
  return static_cast<int>(std::count_if(accesses.begin(), accesses.end(), [&](const MemoryAccess& access) {
    return access.kind == kind && access.binding == binding && access.bytes == bytes;
  }));
}

}  // namespace vkfuse::spirv
