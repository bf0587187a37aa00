// Makes a compute pipeline of each SPIR-V file and prints what the driver's compiler says of it, one line a file:
//   FILE:WORKGROUP:SUBGROUP <tab> NAME=VALUE;NAME=VALUE... <tab> COUNT INSTRUCTION, COUNT INSTRUCTION...      of the
//   instructions that load or store
// Nothing is submitted: it is for drivers without their hardware, and so small that it is compiled for other processors
// by one command.
//   usage: pipelines [-v] FILE:WORKGROUP:SUBGROUP...      SUBGROUP 0: as the driver likes; -v: the listing too
// Ends with 1 where a pipeline cannot be made.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

// What older headers lack; the numbers are those of the registry.
#ifndef VK_KHR_cooperative_matrix
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR ((VkStructureType)1000506000)
typedef struct {
  VkStructureType sType;
  void* pNext;
  VkBool32 cooperativeMatrix;
  VkBool32 cooperativeMatrixRobustBufferAccess;
} VkPhysicalDeviceCooperativeMatrixFeaturesKHR;
#endif

enum { kBuffers = 16, kPushBytes = 128, kMostInstructions = 64 };

static void check(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  fprintf(stderr, "%s failed with VkResult %d.\n", what, result);
  exit(1);
}

static const char* const kWanted[] = {"VK_KHR_pipeline_executable_properties",
                                      "VK_KHR_cooperative_matrix",
                                      "VK_EXT_subgroup_size_control",
                                      "VK_KHR_8bit_storage",
                                      "VK_KHR_16bit_storage",
                                      "VK_KHR_shader_float16_int8",
                                      "VK_KHR_vulkan_memory_model",
                                      "VK_KHR_shader_float_controls",
                                      "VK_KHR_storage_buffer_storage_class",
                                      "VK_KHR_shader_integer_dot_product",
                                      "VK_KHR_shader_subgroup_extended_types"};

typedef struct {
  VkDevice device;
  VkPipelineLayout layout;
  int sizes;  ///< of subgroups can be asked for
} Place;

static int has_extension(const VkExtensionProperties* all, uint32_t count, const char* name) {
  for (uint32_t i = 0; i < count; ++i) {
    if (strcmp(all[i].extensionName, name) == 0) return 1;
  }
  return 0;
}

static Place open_device(void) {
  const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
  const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
  VkInstance instance;
  check(vkCreateInstance(&info, NULL, &instance), "vkCreateInstance");
  VkPhysicalDevice physical;
  uint32_t count = 1;
  const VkResult found = vkEnumeratePhysicalDevices(instance, &count, &physical);
  if ((found != VK_SUCCESS && found != VK_INCOMPLETE) || count == 0)
    check(VK_ERROR_INITIALIZATION_FAILED, "vkEnumeratePhysicalDevices: no device, which");

  VkExtensionProperties extensions[512];
  count = 512;
  check(vkEnumerateDeviceExtensionProperties(physical, NULL, &count, extensions),
        "vkEnumerateDeviceExtensionProperties");
  const char* enabled[16];
  uint32_t enabled_count = 0;
  for (size_t i = 0; i < sizeof(kWanted) / sizeof(kWanted[0]); ++i) {
    if (has_extension(extensions, count, kWanted[i])) enabled[enabled_count++] = kWanted[i];
  }
  const int matrices = has_extension(extensions, count, "VK_KHR_cooperative_matrix");
  VkPhysicalDeviceProperties properties;
  vkGetPhysicalDeviceProperties(physical, &properties);
  const int is_13 = properties.apiVersion >= VK_API_VERSION_1_3;

  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
      .pNext = matrices ? &matrix : NULL};
  VkPhysicalDeviceVulkan13Features core_13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                              .pNext = &executables};
  VkPhysicalDeviceVulkan12Features core_12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                              .pNext = is_13 ? (void*)&core_13 : (void*)&executables};
  VkPhysicalDeviceVulkan11Features core_11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                              .pNext = &core_12};
  VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &core_11};
  vkGetPhysicalDeviceFeatures2(physical, &features);
  features.features.robustBufferAccess = VK_FALSE;  // as vkfuse opens a device
  fprintf(stderr, "%s, vendor 0x%04x, a workgroup has %u invocations and %u bytes, cooperative matrices: %s\n",
          properties.deviceName, properties.vendorID, properties.limits.maxComputeWorkGroupInvocations,
          properties.limits.maxComputeSharedMemorySize, matrices && matrix.cooperativeMatrix ? "yes" : "no");

  const float priority = 1;
  const VkDeviceQueueCreateInfo queue = {
      .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
  const VkDeviceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &features,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = enabled_count,
                                     .ppEnabledExtensionNames = enabled};
  Place place = {.sizes = is_13 && core_13.subgroupSizeControl};
  check(vkCreateDevice(physical, &create, NULL, &place.device), "vkCreateDevice");

  VkDescriptorSetLayoutBinding bindings[kBuffers];
  for (uint32_t i = 0; i < kBuffers; ++i) {
    bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                 .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                 .descriptorCount = 1,
                                                 .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
  }
  const VkDescriptorSetLayoutCreateInfo set_info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = kBuffers, .pBindings = bindings};
  VkDescriptorSetLayout set;
  check(vkCreateDescriptorSetLayout(place.device, &set_info, NULL, &set), "vkCreateDescriptorSetLayout");
  const VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = kPushBytes};
  const VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .setLayoutCount = 1,
                                             .pSetLayouts = &set,
                                             .pushConstantRangeCount = 1,
                                             .pPushConstantRanges = &range};
  check(vkCreatePipelineLayout(place.device, &layout, NULL, &place.layout), "vkCreatePipelineLayout");
  return place;
}

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void* bytes = malloc(*size + 1);
  if (bytes != NULL && fread(bytes, 1, *size, file) != *size) *size = 0;
  fclose(file);
  return bytes;
}

/// Words of a listing that are instructions and touch buffers, or multiply matrices, on any of these machines.
static int touches_memory(const char* word) {
  word += *word == '+' || *word == '*';  // which half of a pair it is, on Mali
  static const char* const starts[] = {
      "buffer_load", "buffer_store", "global_load", "global_store", "scratch_", "v_wmma",         // AMD
      "ld.global",   "st.global",    "ld.local",    "st.local",     "hmma",     "imma",           // NVIDIA
      "dpas",                                                                                     // Intel
      "isam",        "ldib",         "stib",        "ldg",          "stg",      "ldp",    "stp",  // Adreno
      "LOAD.",       "STORE.",       "LD_BUFFER",   "LD_CVT",       "ST_CVT"};                    // Mali
  for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); ++i) {
    if (strncmp(word, starts[i], strlen(starts[i])) == 0) return 1;
  }
  return 0;
}

/// Which elements an instruction takes that says so further on in its line: "isam.v (u32)(xyzw)r0.x".
static void append_mask(char* word, size_t size, const char* rest) {
  static const char* const masks[] = {"(xyzw)", "(xyz)", "(xy)", "(x)"};
  char line[128];
  const size_t length = strcspn(rest, "\n");
  snprintf(line, sizeof(line), "%.*s", (int)(length < sizeof(line) ? length : sizeof(line) - 1), rest);
  for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); ++i) {
    if (strstr(line, masks[i]) == NULL) continue;
    snprintf(word + strlen(word), size - strlen(word), ".%s", masks[i]);
    return;
  }
}

typedef struct {
  char names[kMostInstructions][48];
  int counts[kMostInstructions], known;
} Accesses;

static void count(Accesses* accesses, const char* name) {
  int i = 0;
  while (i < accesses->known && strcmp(accesses->names[i], name) != 0) ++i;
  if (i == kMostInstructions) return;
  if (i == accesses->known) {
    strcpy(accesses->names[i], name);
    accesses->counts[accesses->known++] = 0;
  }
  ++accesses->counts[i];
}

static void count_words(Accesses* accesses, const char* listing) {
  for (const char* at = listing; *at != 0;) {
    const size_t length = strcspn(at, " \t\r\n,;(){}|");
    char word[48];
    if (length > 0 && length < sizeof(word) - 8) {
      memcpy(word, at, length);
      word[length] = 0;
      if (touches_memory(word)) {
        append_mask(word, sizeof(word), at + length);
        count(accesses, word);
      }
    }
    at += length + (at[length] != 0);
  }
}

/// Intel sends messages, described behind the instruction. Of those to buffers, those of scratch and shared memory have
/// no number of a binding:
///   ugm MsgDesc: ( load, a32, d32, V4, ... bti ) BTI 0                            from DG2 on
///   hdc1 MsgDesc: (DC untyped surface write, Surface = 2, SIMD16, Mask = 0x0)     before: 254 is shared memory
static void count_message(Accesses* accesses, const char* text) {
  enum { kSharedMemory = 254 };
  char kind[8], name[48];
  unsigned bits, vector, surface, simd, mask;
  if (sscanf(text, " ( %5[a-z], a%*u, d%u, V%u,", kind, &bits, &vector) == 3 && strstr(text, " bti )") != NULL) {
    snprintf(name, sizeof(name), "%s.d%u.V%u", kind, bits, vector);
    count(accesses, name);
    return;
  }
  const char* const surface_text = strstr(text, "untyped surface ");
  if (surface_text == NULL || sscanf(surface_text, "untyped surface %5[a-z], Surface = %u, SIMD%u, Mask = %x", kind,
                                     &surface, &simd, &mask) != 4)
    return;
  if (surface == kSharedMemory) return;
  for (vector = 4; mask != 0; mask &= mask - 1) --vector;  // a bit of the mask is an element that is left out
  snprintf(name, sizeof(name), "%s.d32.V%u", strcmp(kind, "read") == 0 ? "load" : "store", vector);
  count(accesses, name);
}

static void count_messages(Accesses* accesses, const char* listing) {
  static const char mark[] = "MsgDesc:";
  for (const char* at = listing; (at = strstr(at, mark)) != NULL;) {
    at += sizeof(mark) - 1;
    char line[256];
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
    count_message(accesses, line);
  }
}

static void count_accesses(const char* listing) {
  Accesses accesses = {.known = 0};
  count_words(&accesses, listing);
  count_messages(&accesses, listing);
  for (int i = 0; i < accesses.known; ++i) printf("%s%d %s", i == 0 ? "" : ", ", accesses.counts[i], accesses.names[i]);
}

static void print_statistics(const Place* place, const VkPipelineExecutableInfoKHR* which) {
  const PFN_vkGetPipelineExecutableStatisticsKHR get = (PFN_vkGetPipelineExecutableStatisticsKHR)vkGetDeviceProcAddr(
      place->device, "vkGetPipelineExecutableStatisticsKHR");
  uint32_t count = 0;
  check(get(place->device, which, &count, NULL), "vkGetPipelineExecutableStatisticsKHR");
  VkPipelineExecutableStatisticKHR all[64];
  count = count > 64 ? 64 : count;
  for (uint32_t i = 0; i < count; ++i)
    all[i] = (VkPipelineExecutableStatisticKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
  get(place->device, which, &count, all);
  for (uint32_t i = 0; i < count; ++i) {
    double value = 0;
    switch (all[i].format) {
      case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: value = all[i].value.b32; break;
      case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: value = (double)all[i].value.i64; break;
      case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: value = (double)all[i].value.u64; break;
      default: value = all[i].value.f64; break;
    }
    printf("%s=%.0f;", all[i].name, value);
  }
}

static void print_accesses(const Place* place, const VkPipelineExecutableInfoKHR* which, int verbose) {
  const PFN_vkGetPipelineExecutableInternalRepresentationsKHR get =
      (PFN_vkGetPipelineExecutableInternalRepresentationsKHR)vkGetDeviceProcAddr(
          place->device, "vkGetPipelineExecutableInternalRepresentationsKHR");
  uint32_t count = 0;
  if (get(place->device, which, &count, NULL) != VK_SUCCESS || count == 0) return;
  VkPipelineExecutableInternalRepresentationKHR all[32];
  count = count > 32 ? 32 : count;
  for (uint32_t i = 0; i < count; ++i)
    all[i] = (VkPipelineExecutableInternalRepresentationKHR){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR};
  get(place->device, which, &count, all);
  for (uint32_t i = 0; i < count; ++i) all[i].pData = calloc(1, all[i].dataSize + 1);
  get(place->device, which, &count, all);
  // The last one is what the machine runs; those before it are steps on the way there.
  if (all[count - 1].isText) count_accesses(all[count - 1].pData);
  for (uint32_t i = 0; verbose && i < count; ++i)
    fprintf(stderr, "=== %s\n%s\n", all[i].name, all[i].isText ? (const char*)all[i].pData : "(no text)");
  for (uint32_t i = 0; i < count; ++i) free(all[i].pData);
}

static int compile(const Place* place, char* argument, int verbose) {
  char* const subgroup = strrchr(argument, ':');
  if (subgroup == NULL) return 0;
  *subgroup = 0;
  char* const workgroup = strrchr(argument, ':');
  if (workgroup == NULL) return 0;
  *workgroup = 0;
  const uint32_t invocations = (uint32_t)atoi(workgroup + 1), wanted = (uint32_t)atoi(subgroup + 1);
  size_t size = 0;
  void* const code = read_file(argument, &size);
  if (code == NULL || size == 0) {
    fprintf(stderr, "Cannot read %s.\n", argument);
    return 0;
  }
  const VkShaderModuleCreateInfo module_info = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = size, .pCode = code};
  VkShaderModule module;
  check(vkCreateShaderModule(place->device, &module_info, NULL, &module), "vkCreateShaderModule");
  const VkSpecializationMapEntry entry = {.constantID = 0, .offset = 0, .size = 4};
  const VkSpecializationInfo constants = {
      .mapEntryCount = 1, .pMapEntries = &entry, .dataSize = 4, .pData = &invocations};
  const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo required = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
      .requiredSubgroupSize = wanted};
  const VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                            .flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                                                     VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR,
                                            .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                      .pNext = wanted != 0 && place->sizes ? &required : NULL,
                                                      .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                      .module = module,
                                                      .pName = "main",
                                                      .pSpecializationInfo = &constants},
                                            .layout = place->layout};
  VkPipeline pipeline;
  const VkResult made = vkCreateComputePipelines(place->device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline);
  const char* const slash = strrchr(argument, '/');
  const char* const name = slash == NULL ? argument : slash + 1;
  if (made != VK_SUCCESS) {
    printf("%s:%u:%u\tno pipeline: VkResult %d\t\n", name, invocations, wanted, made);
    return 0;
  }
  printf("%s:%u:%u\t", name, invocations, wanted);
  const VkPipelineExecutableInfoKHR which = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline, .executableIndex = 0};
  print_statistics(place, &which);
  printf("\t");
  print_accesses(place, &which, verbose);
  printf("\n");
  fflush(stdout);
  vkDestroyPipeline(place->device, pipeline, NULL);
  vkDestroyShaderModule(place->device, module, NULL);
  free(code);
  return 1;
}

int main(int count, char** arguments) {
  const int verbose = count > 1 && strcmp(arguments[1], "-v") == 0;
  const Place place = open_device();
  int good = 1;
  for (int i = 1 + verbose; i < count; ++i) good = compile(&place, arguments[i], verbose) && good;
  fflush(stdout);
  _Exit(good ? 0 : 1);  // these drivers do not like to be taken down without their hardware
}
