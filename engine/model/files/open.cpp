// open_model and open_vocabulary: which format a file has, by its first bytes, and what lies beside it.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "engine/model/files/assemble_internal.h"
#include "engine/model/files/byte_reader_internal.h"
#include "engine/model/files/folder_internal.h"
#include "engine/model/files/formats_internal.h"
#include "engine/model/files/identity_internal.h"
#include "engine/model/files/mapped_file.h"
#include "engine/model/files/model_file.h"
#include "engine/model/tokenizer/tokenizer_json.h"

namespace hone::model {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<std::shared_ptr<const MappedFile>>;

Status in_file(const std::string& path, const Status& status) {
  if (path.empty()) return status;
  return {status.code(), fmt::format("{}: {}", path, status.message())};
}

enum class Format { kGguf, kSafetensors, kLlama2c, kUnknown };

Format format_of(std::span<const std::byte> bytes) {
  if (bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0) return Format::kGguf;
  // Behind 8 bytes of size, JSON.
  if (bytes.size() > 8 && bytes[7] == std::byte{0} && bytes[8] == std::byte{'{'}) return Format::kSafetensors;
  if (looks_like_llama2c(bytes)) return Format::kLlama2c;
  return Format::kUnknown;
}

// What is in the file itself, with names of files in no message.
Result<Vocabulary> vocabulary_of(std::span<const std::byte> bytes, std::optional<int64_t> tokens) {
  if (format_of(bytes) != Format::kGguf) return vocabulary_of_llama2c(bytes, tokens);
  HONE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::parse(bytes));
  HONE_ASSIGN_OR_RETURN(std::optional<Vocabulary> vocabulary, vocabulary_of_gguf(file));
  HONE_ASSIGN_OR_RETURN(const GgufSplit split, split_of(file));
  if (!vocabulary && split.number > 0)
    return not_found(
        fmt::format("part {} of {} of a model has no tokenizer, name the first one", split.number + 1, split.count));
  if (!vocabulary) return not_found("the file has no tokenizer");
  return std::move(*vocabulary);
}

bool is_of_a_folder(const fs::path& path) { return path.filename() == "tokenizer.json"; }

// By its name alone where nothing in it says what it is: damaged, or empty, it is still no tokenizer.bin.
bool is_json(const fs::path& path, std::span<const std::byte> bytes) {
  if (!bytes.empty() && bytes.front() == std::byte{'{'}) return true;
  return path.extension() == ".json" && format_of(bytes) == Format::kUnknown;
}

// A tokenizer.json by whatever name, with what is beside it where it has its own.
Result<Vocabulary> vocabulary_of_json(const fs::path& path, std::span<const std::byte> bytes) {
  if (is_of_a_folder(path)) return vocabulary_of_folder(path.parent_path().string());
  return vocabulary_of_tokenizer_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, {});
}

Result<Vocabulary> vocabulary_beside_llama2c(const std::string& path, std::span<const std::byte> bytes);

// `tokens`: of the model that it is for; nothing: any, and a file of weights means the tokenizer that belongs to it.
Result<Vocabulary> read_vocabulary(const std::string& path, std::optional<int64_t> tokens, Files* files) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    Result<Vocabulary> vocabulary = vocabulary_of_folder(path);
    return vocabulary.ok() ? std::move(vocabulary) : in_file(path, vocabulary.status());
  }
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
  if (!file.ok()) return in_file(path, file.status());
  const std::span<const std::byte> bytes = (*file)->bytes();
  const bool json = is_json(path, bytes);
  const Format format = format_of(bytes);
  Result<Vocabulary> vocabulary = json                             ? vocabulary_of_json(path, bytes)
                                  : format == Format::kSafetensors ? vocabulary_of_folder(fs::path(path).parent_path())
                                                                   : vocabulary_of(bytes, tokens);
  // By its header alone a tokenizer might be taken for a model.
  if (!vocabulary.ok() && format == Format::kLlama2c && !tokens) vocabulary = vocabulary_beside_llama2c(path, bytes);
  // That of a folder names the file in it.
  if (!vocabulary.ok())
    return in_file(json && is_of_a_folder(path) ? fs::path(path).parent_path().string() : path, vocabulary.status());
  if (files != nullptr) files->push_back(*file);
  return vocabulary;
}

// tok512.bin is for 512 tokens, or damaged. A tokenizer.bin for another number of tokens is another model's.
Status find_llama2c_tokenizer(const std::string& path, ModelFile& model, Files& files) {
  const fs::path folder = fs::path(path).parent_path();
  const int64_t tokens = model.config.vocabulary;
  const std::pair<std::string, std::optional<int64_t>> candidates[] = {{fmt::format("tok{}.bin", tokens), tokens},
                                                                       {"tokenizer.bin", std::nullopt}};
  for (const auto& [name, must_have] : candidates) {
    Result<Vocabulary> found = read_vocabulary((folder / name).string(), must_have, &files);
    if (!found.ok() && found.status().code() == Code::kNotFound) continue;
    if (!found.ok()) return found.status();
    if (static_cast<int64_t>(found->tokens.size()) != tokens) continue;
    model.vocabulary = *std::move(found);
    return {};
  }
  return {};
}

Result<Vocabulary> vocabulary_beside_llama2c(const std::string& path, std::span<const std::byte> bytes) {
  HONE_ASSIGN_OR_RETURN(ModelFile model, model_of_llama2c(bytes));
  Files files;
  HONE_RETURN_IF_ERROR(find_llama2c_tokenizer(path, model, files));
  if (model.vocabulary) return *std::move(model.vocabulary);
  return not_found(
      fmt::format("a llama2.c model has no tokenizer in it, and neither tok{}.bin nor tokenizer.bin is beside "
                  "it; name that file",
                  model.config.vocabulary));
}

// Ids beyond the table of embeddings would be refused when they are used, one by one: better said at once.
Status check_vocabulary(const ModelFile& model) {
  if (!model.vocabulary) return {};
  const auto tokens = static_cast<int64_t>(model.vocabulary->tokens.size());
  if (tokens <= model.config.vocabulary) return {};
  return invalid_argument(fmt::format("the tokenizer has {} tokens, the model {}", tokens, model.config.vocabulary));
}

Result<ModelFile> open_checkpoint(const std::string& folder, const std::string& only, const OpenOptions& options) {
  HONE_ASSIGN_OR_RETURN(OpenedFolder opened, open_folder(folder, only, options.tokenizer.empty()));
  ModelFile model = std::move(opened.model);
  model.weight_bytes = bytes_of(model.weights);
  model.identity = identity_of(model.format, opened.files);
  model.memory = std::make_shared<const std::pair<Files, std::shared_ptr<const void>>>(std::move(opened.files),
                                                                                       std::move(opened.copies));
  return model;
}

// `files` keeps them.
auto other_parts(const std::string& path, Files& files) {
  return
      [folder = fs::path(path).parent_path(), &files](const std::string& name) -> Result<std::span<const std::byte>> {
        HONE_ASSIGN_OR_RETURN(const auto part, MappedFile::open((folder / name).string()));
        files.push_back(part);
        return part->bytes();
      };
}

Result<ModelFile> open_file(const std::string& path, const OpenOptions& options) {
  std::error_code error;
  if (fs::is_directory(path, error)) return open_checkpoint(path, "", options);
  HONE_ASSIGN_OR_RETURN(const auto mapped, MappedFile::open(path));
  const std::span<const std::byte> bytes = mapped->bytes();
  const Format format = format_of(bytes);
  if (format == Format::kUnknown)
    return unsupported("not a model file that is known here: neither GGUF nor safetensors nor llama2.c");
  if (format == Format::kSafetensors) {
    const fs::path file(path);
    return open_checkpoint(file.parent_path().string(), file.filename().string(), options);
  }
  const bool own = options.tokenizer.empty();
  Files files = {mapped};
  HONE_ASSIGN_OR_RETURN(ModelFile model,
                        format == Format::kGguf
                            ? model_of_gguf(bytes, own, {fs::path(path).filename(), other_parts(path, files)})
                            : model_of_llama2c(bytes));
  model.identity = identity_of(model.format, files);
  if (format == Format::kLlama2c && own) HONE_RETURN_IF_ERROR(find_llama2c_tokenizer(path, model, files));
  model.weight_bytes = bytes_of(model.weights);
  model.memory = std::make_shared<const Files>(std::move(files));
  return model;
}

}  // namespace

Result<ModelFile> open_model(const std::string& path, const OpenOptions& options) {
  Result<ModelFile> model = open_file(path, options);
  if (!model.ok()) return in_file(path, model.status());
  model->path = path;
  if (!options.tokenizer.empty()) {
    Result<Vocabulary> given = read_vocabulary(options.tokenizer, std::nullopt, nullptr);
    if (!given.ok()) return of_given_tokenizer(given.status());
    model->vocabulary = *std::move(given);
  }
  if (Status s = check_vocabulary(*model); !s.ok())
    return in_file(options.tokenizer.empty() ? path : options.tokenizer, s);
  return model;
}

Status of_given_tokenizer(const Status& status) {
  return status.code() == Code::kInvalidArgument ? data_loss(status.message()) : status;
}

Result<Vocabulary> open_vocabulary(const std::string& path) { return read_vocabulary(path, std::nullopt, nullptr); }

}  // namespace hone::model
