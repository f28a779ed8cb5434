// See folder_internal.h.
#include "engine/model/files/folder_internal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "engine/base/printable.h"
#include "engine/model/files/assemble_internal.h"
#include "engine/model/files/hugging_face_internal.h"
#include "engine/model/files/stops_internal.h"
#include "engine/model/json.h"
#include "engine/model/tokenizer/tokenizer_json.h"

namespace hone::model {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTemplate = 1 << 20;

Status in_file(const std::string& name, const Status& status) {
  return {status.code(), fmt::format("{}: {}", printable(name), status.message())};
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

class Folder {
 public:
  explicit Folder(fs::path path) : path_(std::move(path)) {}

  Result<std::shared_ptr<const MappedFile>> open(const std::string& name) const {
    Result<std::shared_ptr<const MappedFile>> file = MappedFile::open((path_ / name).string());
    if (!file.ok()) return in_file(name, file.status());
    return file;
  }
  // What is read of a file that need not be there; T() where it is not.
  template <typename T>
  Result<T> optional(const std::string& name, Result<T> (*read)(std::string_view)) const {
    const auto file = open(name);
    if (!file.ok()) return file.status().code() == Code::kNotFound ? Result<T>(T()) : file.status();
    Result<T> value = read(text_of(**file));
    if (!value.ok()) return in_file(name, value.status());
    return value;
  }
  std::vector<std::string> names_ending(std::string_view end) const {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator at(path_, error), last; !error && at != last; at.increment(error))
      if (std::string name = at->path().filename().string(); name.ends_with(end)) names.push_back(std::move(name));
    std::ranges::sort(names);
    return names;
  }

 private:
  fs::path path_;
};

using WeightMap = std::vector<std::pair<std::string, std::string>>;

// The files with weights, each once.
Result<std::vector<std::string>> weight_files(const Folder& folder, const std::string& only, const WeightMap& map) {
  std::set<std::string> mapped;
  for (const auto& [tensor, file] : map) mapped.insert(file);
  if (!mapped.empty() && (only.empty() || mapped.contains(only)))
    return std::vector<std::string>(mapped.begin(), mapped.end());
  if (!only.empty()) return std::vector<std::string>{only};
  std::vector<std::string> there = folder.names_ending(".safetensors");
  if (there.empty()) return not_found("no .safetensors file in the folder");
  if (std::ranges::find(there, "model.safetensors") != there.end())
    return std::vector<std::string>{"model.safetensors"};
  if (there.size() > 1)
    return invalid_argument(
        fmt::format("{} .safetensors files and no model.safetensors.index.json to say what they are", there.size()));
  return there;
}

// Copies a tensor that does not lie at a multiple of its element's size: the format does not ask for it, and writers of
// old did not see to it.
void align(Weight& weight, std::vector<std::vector<uint64_t>>& copies) {
  const auto at = reinterpret_cast<uintptr_t>(weight.data.data());
  if (at % static_cast<uintptr_t>(dtype_bytes(weight.dtype)) == 0) return;
  std::vector<uint64_t>& copy = copies.emplace_back((weight.data.size() + 7) / 8);
  std::memcpy(copy.data(), weight.data.data(), weight.data.size());
  weight.data = std::as_bytes(std::span(copy)).first(weight.data.size());
}

// Tables that old checkpoints carry and that follow from the config.
bool is_derived(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

Status read_weights(const Folder& folder, const std::vector<std::string>& names, const WeightMap& map,
                    OpenedFolder& opened) {
  auto copies = std::make_shared<std::vector<std::vector<uint64_t>>>();
  std::vector<Weight> all;
  std::map<std::string, std::string> where;  // tensor -> file
  for (const std::string& name : names) {
    HONE_ASSIGN_OR_RETURN(const auto file, folder.open(name));
    Result<std::vector<Weight>> tensors = tensors_of_safetensors(file->bytes());
    if (!tensors.ok()) return in_file(name, tensors.status());
    opened.files.push_back(file);
    for (Weight& w : *tensors) {
      if (!where.emplace(w.name, name).second)
        return data_loss(fmt::format("tensor \"{}\" is in {} and in {}", printable(w.name), printable(where[w.name]),
                                     printable(name)));
      const bool tied = opened.model.config.tied_embeddings && w.name == "lm_head.weight";
      if (is_derived(w.name) || tied) continue;
      align(w, *copies);
      all.push_back(std::move(w));
    }
  }
  for (const auto& [tensor, file] : map)
    if (const auto found = where.find(tensor); found != where.end() && found->second != file)
      return data_loss(fmt::format("tensor \"{}\" is in {}, the index says {}", printable(tensor),
                                   printable(found->second), printable(file)));
  opened.copies = copies;
  HONE_ASSIGN_OR_RETURN(opened.model.weights, assemble(std::move(all), Naming::kHuggingFace, opened.model.config));
  return {};
}

// Newer checkpoints have a chat template in a file of its own, which is no JSON.
Result<std::string> whole(std::string_view text) {
  if (text.size() > kMostTemplate)
    return unsupported(fmt::format("{} bytes of a chat template, more than {}", text.size(), kMostTemplate));
  return std::string(text);
}

// Null where there is none. Asked for once and only where it is needed: it may have megabytes.
Result<Json> tokenizer_config_of(const Folder& folder) {
  return folder.optional<Json>("tokenizer_config.json", [](std::string_view text) { return parse_json_object(text); });
}

// `tokenizer_config`: where it was read already.
Status read_vocabulary(const Folder& folder, std::optional<Json> tokenizer_config,
                       std::optional<Vocabulary>& vocabulary) {
  const auto file = folder.open("tokenizer.json");
  if (!file.ok()) return file.status().code() == Code::kNotFound ? Status() : file.status();
  if (!tokenizer_config) {
    HONE_ASSIGN_OR_RETURN(tokenizer_config.emplace(), tokenizer_config_of(folder));
  }
  Result<Vocabulary> read = vocabulary_of_tokenizer_json(text_of(**file), *tokenizer_config);
  if (!read.ok()) return in_file("tokenizer.json", read.status());
  vocabulary = *std::move(read);
  // The tokenizer's own eos ends a text; what ends a turn of a chat is a matter of generating.
  std::vector<int32_t> stops = {vocabulary->eos};
  for (const char* name : {"generation_config.json", "config.json"}) {
    HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> more, folder.optional(name, stops_of_hugging_face));
    stops.insert(stops.end(), more.begin(), more.end());
  }
  add_stops(*vocabulary, stops);
  return {};
}

}  // namespace

Result<Vocabulary> vocabulary_of_folder(const std::string& path) {
  std::optional<Vocabulary> vocabulary;
  HONE_RETURN_IF_ERROR(read_vocabulary(Folder(path), std::nullopt, vocabulary));
  if (!vocabulary) return not_found("no tokenizer.json in the folder");
  return *std::move(vocabulary);
}

Result<OpenedFolder> open_folder(const std::string& path, const std::string& only, bool with_vocabulary) {
  const Folder folder(path);
  OpenedFolder opened;
  opened.model.format = "safetensors";
  HONE_ASSIGN_OR_RETURN(const auto config, folder.open("config.json"));
  opened.files.push_back(config);
  Result<DecoderConfig> read = config_of_hugging_face(text_of(*config));
  if (!read.ok()) return in_file("config.json", read.status());
  opened.model.config = *std::move(read);
  HONE_ASSIGN_OR_RETURN(const WeightMap map,
                        folder.optional("model.safetensors.index.json", weight_map_of_hugging_face));
  HONE_ASSIGN_OR_RETURN(const std::vector<std::string> names, weight_files(folder, only, map));
  HONE_RETURN_IF_ERROR(read_weights(folder, names, map, opened));
  HONE_ASSIGN_OR_RETURN(opened.model.chat_template, folder.optional("chat_template.jinja", whole));
  std::optional<Json> tokenizer_config;
  if (opened.model.chat_template.empty()) {
    HONE_ASSIGN_OR_RETURN(tokenizer_config.emplace(), tokenizer_config_of(folder));
    opened.model.chat_template = chat_template_of_hugging_face(*tokenizer_config);
  }
  if (with_vocabulary)
    HONE_RETURN_IF_ERROR(read_vocabulary(folder, std::move(tokenizer_config), opened.model.vocabulary));
  return opened;
}

}  // namespace hone::model
