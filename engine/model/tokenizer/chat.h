// Chat templates by name: how turns of a conversation become the text that a model was trained on.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/tokenizer/tokenizer.h"

namespace hone::model {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// "chatml", "llama2", "llama3", "mistral", "zephyr", "tinyllama", "smollm2", "qwen2", ..: with the names and strings of
// llama.cpp where it has them.
std::vector<std::string_view> chat_template_names();

// The name of the template that a file's Jinja text is, told by the markers in it; "" when it is none of ours.
std::string_view recognise_chat_template(std::string_view jinja);

// A stretch of the text. Special tokens are looked for in what the template says, and never in what people wrote.
struct ChatPiece {
  std::string text;
  bool special = false;
};

// `answer` appends what makes the model answer as the assistant. Errors: not_found (no such template; the message lists
// them), invalid_argument (a role that it has no words for).
Result<std::vector<ChatPiece>> apply_chat_template(std::string_view name, std::span<const ChatMessage> messages,
                                                   bool answer);
// Special tokens that the template marks turns with and that the vocabulary has not: they would be read as text.
std::vector<std::string_view> markers_lacking(const Tokenizer& tokenizer, std::string_view name);
// With a bos in front where the vocabulary wants one and the template does not say it.
Result<std::vector<int32_t>> encode_chat(const Tokenizer& tokenizer, std::span<const ChatPiece> pieces);

}  // namespace hone::model
