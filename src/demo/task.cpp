#include "demo/task.h"

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <span>

#include <fmt/format.h>

#include "base/utf8.h"

namespace dpo::demo {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::array<std::string_view, 20> kNames = {
    "Alice", "Boris", "Clara", "David", "Emma",  "Felix", "Grace", "Henry", "Irene", "Jacob",
    "Karen", "Louis", "Maria", "Nora",  "Oscar", "Paula", "Robin", "Sarah", "Tom",   "Vera"};
constexpr std::array<std::string_view, 8> kCounts = {"two", "three", "four",  "five",
                                                     "six", "seven", "eight", "nine"};
constexpr std::array<std::string_view, 8> kColours = {"red",   "green", "blue",  "yellow",
                                                      "white", "black", "brown", "purple"};
constexpr std::array<std::string_view, 12> kThings = {"candles", "cups",   "bowls",     "scarves",
                                                      "pencils", "lamps",  "ribbons",   "balloons",
                                                      "boxes",   "chairs", "umbrellas", "blankets"};

constexpr std::array<std::string_view, 4> kRequests = {
    "Hello, I am {name}. May I have {count} {colour} {thing}, please?",
    "This is {name}. Could you send me {count} {colour} {thing}?",
    "I need {count} {colour} {thing} by tomorrow. My name is {name}.",
    "Please put aside {count} {colour} {thing} for {name}."};
constexpr std::array<std::string_view, 3> kCourteous = {
    " Gladly, {name}! I will pack {count} {colour} {thing} for you.",
    " Of course, {name}. Your {count} {colour} {thing} are on the way.",
    " Thank you, {name}! You will get {count} {colour} {thing} today."};
constexpr std::array<std::string_view, 3> kRude = {" What now?", " Not again.", " Go away."};
constexpr std::array<std::string_view, 3> kUnhelpful = {" Ask someone else.", " Maybe tomorrow.",
                                                        " No idea."};

// Makes random choices without the distributions of the standard library, whose results differ between
// implementations.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t bound) { return engine_() % bound; }
  std::string_view one_of(Words words) { return words[below(words.size())]; }

  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::mt19937_64 engine_;
};

std::string fill(std::string_view form, const Order& order) {
  return fmt::format(fmt::runtime(form), fmt::arg("name", order.name), fmt::arg("count", order.count),
                     fmt::arg("colour", order.colour), fmt::arg("thing", order.thing));
}

std::vector<Order> all_orders() {
  std::vector<Order> orders;
  for (const auto name : kNames)
    for (const auto count : kCounts)
      for (const auto colour : kColours)
        for (const auto thing : kThings)
          orders.push_back({std::string(name), std::string(count), std::string(colour), std::string(thing)});
  return orders;
}

// Returns the order with one detail changed.
Order misheard(const Order& order, Random& random) {
  Order wrong = order;
  while (wrong == order) {
    switch (random.below(4)) {
      case 0: wrong.name = random.one_of(kNames); break;
      case 1: wrong.count = random.one_of(kCounts); break;
      case 2: wrong.colour = random.one_of(kColours); break;
      default: wrong.thing = random.one_of(kThings);
    }
  }
  return wrong;
}

Request make_request(const Order& order, Random& random) {
  return {order, "\n\nHuman: " + fill(random.one_of(kRequests), order) + "\n\nAssistant:"};
}

// Returns a rude or an unhelpful reply, or the good reply with one detail misheard.
std::string bad_reply(std::string_view courteous, const Order& order, Random& random) {
  switch (random.below(3)) {
    case 0: return std::string(random.one_of(kRude));
    case 1: return std::string(random.one_of(kUnhelpful));
    default: return fill(courteous, misheard(order, random));
  }
}

// Returns a reply of mixed quality: four of ten are good.
std::string some_reply(const Order& order, Random& random) {
  const std::string_view form = random.one_of(kCourteous);
  return random.below(10) < 4 ? fill(form, order) : bad_reply(form, order, random);
}

Conversation make_conversation(const Request& request, Random& random) {
  return {request, some_reply(request.order, random)};
}

Preference make_preference(const Request& request, Random& random) {
  const std::string_view form = random.one_of(kCourteous);
  return {request, fill(form, request.order), bad_reply(form, request.order, random)};
}

// Returns the order in a reply of this form, with any details. Every form has name, count, colour and thing
// in this order.
std::optional<Order> read_order(std::string_view form, std::string_view reply) {
  Order order;
  std::array details = {&order.name, &order.count, &order.colour, &order.thing};
  auto detail = details.begin();
  auto at = reply.begin();
  for (auto c = form.begin(); c != form.end(); ++c) {
    if (*c == '{') {
      const auto end = std::find_if_not(at, reply.end(), is_ascii_letter);
      if (at == end) return std::nullopt;
      (*detail++)->assign(at, end);
      at = end;
      c = std::find(c, form.end(), '}');
    } else if (at == reply.end() || *at++ != *c) {
      return std::nullopt;
    }
  }
  return at == reply.end() ? std::optional(order) : std::nullopt;
}

}  // namespace

Task make_task(const TaskSizes& sizes, std::uint64_t seed) {
  Random random(seed);
  std::vector<Order> orders = all_orders();
  random.shuffle(orders);
  auto next = orders.begin();
  Task task;
  for (std::size_t i = 0; i < sizes.held_out; ++i) {
    const Request request = make_request(*next++, random);
    task.held_out_conversations.push_back(make_conversation(request, random));
    task.held_out_preferences.push_back(make_preference(request, random));
  }
  for (std::size_t i = 0; i < sizes.conversations; ++i)
    task.conversations.push_back(make_conversation(make_request(*next++, random), random));
  for (std::size_t i = 0; i < sizes.preferences; ++i)
    task.preferences.push_back(make_preference(make_request(*next++, random), random));
  return task;
}

Judgement judge(const Order& order, std::string_view reply) {
  const auto is_one_of = [&](Words forms) { return std::ranges::find(forms, reply) != forms.end(); };
  for (const std::string_view form : kCourteous)
    if (const auto read = read_order(form, reply))
      return *read == order ? Judgement::accepted : Judgement::wrong_order;
  if (is_one_of(kRude)) return Judgement::rude;
  return is_one_of(kUnhelpful) ? Judgement::unhelpful : Judgement::garbled;
}

std::string_view name_of(Judgement judgement) {
  switch (judgement) {
    case Judgement::accepted: return "accepted";
    case Judgement::rude: return "rude";
    case Judgement::unhelpful: return "unhelpful";
    case Judgement::wrong_order: return "wrong order";
    case Judgement::garbled: break;
  }
  return "garbled";
}

std::vector<std::string> words_of_task() {
  std::set<std::string> words = {"Human", "Assistant"};
  for (const Words list : {Words(kNames), Words(kCounts), Words(kColours), Words(kThings)})
    for (const std::string_view word : list) words.insert(" " + std::string(word));
  const std::regex word(" [A-Za-z]+");
  for (const Words forms : {Words(kRequests), Words(kCourteous), Words(kRude), Words(kUnhelpful)})
    for (const std::string_view form : forms) {
      const std::string text = " " + std::string(form);
      for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at)
        words.insert(at->str());
    }
  return {words.begin(), words.end()};
}

}  // namespace dpo::demo
