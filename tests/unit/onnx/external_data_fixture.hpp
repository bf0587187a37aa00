// A tensor whose elements lie in a file.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "onnx/host_tensor.hpp"
#include "onnx/tensor_proto.hpp"
#include "unit/onnx/models.hpp"

namespace vkfuse::onnx {

class ExternalData : public testing::Test {
 protected:
  void SetUp() override { folder_.write("weights.bin", std::string("\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 12)); }

  static pb::TensorProto tensor_at(const std::string& location, const std::string& offset, const std::string& length) {
    pb::TensorProto tensor;
    tensor.set_name("t");
    tensor.set_data_type(pb::TensorProto::FLOAT);
    tensor.add_dims(2);
    tensor.set_data_location(pb::TensorProto::EXTERNAL);
    const std::pair<const char*, const std::string&> entries[] = {
        {"location", location}, {"offset", offset}, {"length", length}};
    for (const auto& entry : entries) {
      pb::StringStringEntryProto& stored = *tensor.add_external_data();
      stored.set_key(entry.first);
      stored.set_value(entry.second);
    }
    return tensor;
  }

  Result<TensorData> read(const std::string& location, const std::string& offset = "4",
                          const std::string& length = "8") {
    return decode_tensor(tensor_at(location, offset, length), folder_.path());
  }

  ScratchFolder folder_;
};

}  // namespace vkfuse::onnx
