#include "task/engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <list>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "base/background_thread.h"

namespace forebay::task {

namespace {

using NodePtr = std::shared_ptr<Task::Node>;
using Nodes = std::list<NodePtr>;

enum class Wait : std::uint8_t { kParent, kSufficientParent, kTurn };

// An element of a ring without an owner; alone it is a ring of its own.
struct Link {
    Link* before = this;
    Link* after = this;

    Link() noexcept = default;
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    ~Link() { leave(); }

    [[nodiscard]] bool alone() const noexcept { return after == this; }
    void leave() noexcept {
        before->after = after;
        after->before = before;
        before = after = this;
    }
    // Puts `link`, which is alone, at the end of the ring that begins here.
    void append(Link& link) noexcept {
        link.before = before;
        link.after = this;
        before->after = &link;
        before = &link;
    }
};

// What a child waits for. In the ring of that parent, or of its section, as long as the child waits for it.
struct Edge : Link {
    Task::Node* child = nullptr;
    Wait wait = Wait::kParent;
};

// The tasks between two barriers.
struct Section {
    std::size_t unfinished = 0;      // but for the barrier task
    bool closed = false;             // a barrier task was submitted
    bool barrier_due = false;        // and may begin as far as this section is concerned
    Task::Node* barrier = nullptr;   // until it has ended
    Link gated;                      // edges of the tasks of this section, until it is the oldest
};

}   // namespace

// All but `state` and what is constant is guarded by the engine's lock.
struct Task::Node {
    const Engine::Core* engine = nullptr;   // compared only, since handles may outlive the engine
    std::function<Status()> run;
    std::uint64_t bytes = 0;
    bool barrier = false;

    std::atomic<State> state{State::kWaiting};
    Status status;   // constant once the state says that the task has ended

    // Where the engine keeps it until it ends.
    Nodes* list = nullptr;
    Nodes::iterator place;
    Section* section = nullptr;
    std::thread::id runner;
    std::size_t waiters = 0;

    Link children;                   // edges of those that wait for this task
    Edge turn;                       // what this task waits for: its section's turn,
    std::unique_ptr<Edge[]> edges;   // and parents
    std::size_t edge_count = 0;
    std::size_t missing = 0;           // until it may be scheduled; all sufficient parents together count once
    std::size_t sufficient_left = 0;   // sufficient parents that may still be done

    [[nodiscard]] std::span<Edge> parent_edges() const noexcept { return {edges.get(), edge_count}; }
};

// Tasks that have ended, and whose functions are to be destroyed without the lock: declared before it.
struct Engine::Ended {
    Nodes nodes;

    Ended() = default;
    Ended(const Ended&) = delete;
    Ended& operator=(const Ended&) = delete;
    ~Ended() { destroy(); }
    void destroy() noexcept {
        for (const NodePtr& node : nodes) node->run = nullptr;   // handles may keep the rest
        nodes.clear();
    }
};

State Task::state() const noexcept { return node_->state.load(std::memory_order_acquire); }

Status Task::status() const {
    switch (state()) {
        case State::kDone: return node_->status;
        case State::kCanceled: return {Code::kUnavailable, "the task was canceled"};
        default: return {Code::kUnavailable, "the task has not ended"};
    }
}

namespace {

Status call(const std::function<Status()>& run) noexcept {   // texts are short enough to need no memory
    try {
        return run();
    } catch (const std::bad_alloc&) {
        return {Code::kUnavailable, "out of memory"};
    } catch (const std::exception& exception) {
        try {
            return {Code::kInternal, exception.what()};
        } catch (const std::bad_alloc&) {
            return {Code::kInternal, "exception"};
        }
    } catch (...) {
        return {Code::kInternal, "exception"};
    }
}

std::jthread start_plain_thread(std::function<void()> serve) { return start_background_thread(std::move(serve)); }

}   // namespace

class Engine::Core {
  public:
    explicit Core(Limits limits) : limits_(std::move(limits)) {
        limits_.threads_max = std::max<std::size_t>(1, limits_.threads_max);
        if (!limits_.start_thread) limits_.start_thread = start_plain_thread;
        sections_.emplace_back();
    }
    ~Core();

    Submitted submit(Request request);
    bool cancel(Task::Node& node);
    bool assist();
    void allow(std::size_t threads);
    bool stop(std::chrono::steady_clock::time_point until);
    // Until `awaited` has ended, or, if it is null, no task is left.
    Status wait(Task::Node* awaited);

  private:
    void serve();
    void leave_locked();
    void begin_stop();

    // Links and states
    static void wait_for_locked(Task::Node& node, Edge& edge, Link& ring, Wait wait);
    void link_locked(Task::Node& node, const Request& request);
    void place_locked(Task::Node& node, Nodes& list);
    void schedule_locked(Task::Node& node);
    void satisfied_locked(Task::Node& child, Wait wait);
    void given_up_locked(Task::Node& child, Wait wait);
    void mark_ended_locked(Task::Node& node, State how);
    void end_locked(Task::Node& node, State how, Ended& ended);
    void settle_locked(Ended& ended);
    void open_sections_locked();

    // Running
    [[nodiscard]] bool fits_locked(const Task::Node& node) const noexcept;
    [[nodiscard]] bool must_hold_back_locked(const Task::Node& node) const noexcept;
    [[nodiscard]] std::size_t takeable_locked() const noexcept;
    [[nodiscard]] NodePtr take_locked();
    void run(NodePtr node, std::unique_lock<std::mutex>& lock);
    void summon_locked();
    bool start_thread_locked();
    [[nodiscard]] bool called_by_task_locked() const noexcept;

    Limits limits_;
    std::mutex mutex_;
    std::condition_variable ready_;   // a summons was given, or the end has come
    std::condition_variable ended_;   // an awaited task has ended, or one who waits may run a task himself

    // Each task that has not ended is in one of these; `held_back_`: scheduled, but for the budget.
    Nodes waiting_, scheduled_, held_back_, running_;
    Nodes ending_;                   // ended, and their children do not know yet; empty when the lock is free
    std::deque<Section> sections_;   // oldest first; tasks go into the last one
    std::uint64_t running_bytes_ = 0;
    std::size_t charged_ = 0;   // running tasks with bytes
    std::size_t unfinished_ = 0;

    bool stopping_ = false;       // no thread starts any more, and nothing is scheduled
    std::size_t asleep_ = 0;      // threads without a summons
    std::size_t summonses_ = 0;   // given and not yet followed
    std::size_t looking_ = 0;     // threads that will look for a task before they sleep
    std::size_t waiters_ = 0, all_waiters_ = 0;
    std::vector<std::jthread> threads_;
    std::vector<std::jthread> left_;   // have ended, or are about to
};

// ---- Links and states ------------------------------------------------------------------------------

void Engine::Core::place_locked(Task::Node& node, Nodes& list) {
    list.splice(list.end(), *node.list, node.place);
    node.list = &list;
}

void Engine::Core::wait_for_locked(Task::Node& node, Edge& edge, Link& ring, Wait wait) {
    edge.child = &node;
    edge.wait = wait;
    ring.append(edge);
}

// Finds out what the task has to wait for. Its edges have been allocated.
void Engine::Core::link_locked(Task::Node& node, const Request& request) {
    bool doomed = false;
    for (const Task& parent : request.parents) {
        const State state = parent.state();
        doomed |= state == State::kCanceled;
        if (has_ended(state)) continue;
        wait_for_locked(node, node.edges[node.edge_count++], parent.node_->children, Wait::kParent);
        ++node.missing;
    }
    const auto& sufficient = request.sufficient_parents;
    if (!sufficient.empty() && std::none_of(sufficient.begin(), sufficient.end(),
                                            [](const Task& parent) { return parent.state() == State::kDone; })) {
        for (const Task& parent : sufficient) {
            if (parent.state() == State::kCanceled) continue;
            wait_for_locked(node, node.edges[node.edge_count++], parent.node_->children, Wait::kSufficientParent);
            ++node.sufficient_left;
        }
        doomed |= node.sufficient_left == 0;
        ++node.missing;
    }
    if (node.barrier) {
        node.section->closed = true;
        node.section->barrier = &node;
        ++node.missing;   // until open_sections_locked says that it is due
    } else {
        ++node.section->unfinished;
        if (node.section != &sections_.front()) {
            wait_for_locked(node, node.turn, node.section->gated, Wait::kTurn);
            ++node.missing;
        }
    }
    if (doomed) mark_ended_locked(node, State::kCanceled);
    else if (node.missing == 0) schedule_locked(node);
}

void Engine::Core::schedule_locked(Task::Node& node) {
    if (stopping_) {
        mark_ended_locked(node, State::kCanceled);
        return;
    }
    node.state.store(State::kScheduled, std::memory_order_release);
    place_locked(node, must_hold_back_locked(node) ? held_back_ : scheduled_);
}

void Engine::Core::satisfied_locked(Task::Node& child, Wait wait) {
    if (wait == Wait::kSufficientParent)   // the other ones no longer matter
        for (Edge& edge : child.parent_edges())
            if (edge.wait == Wait::kSufficientParent) edge.leave();
    if (--child.missing == 0) schedule_locked(child);
}

void Engine::Core::given_up_locked(Task::Node& child, Wait wait) {
    if (wait == Wait::kSufficientParent && --child.sufficient_left > 0) return;
    mark_ended_locked(child, State::kCanceled);
}

// The rest is done by settle_locked, in a loop: a chain of tasks may be longer than a stack is deep.
void Engine::Core::mark_ended_locked(Task::Node& node, State how) {
    for (Edge& edge : node.parent_edges()) edge.leave();
    node.turn.leave();
    if (node.barrier) node.section->barrier = nullptr;
    node.state.store(how, std::memory_order_release);
    place_locked(node, ending_);
}

void Engine::Core::end_locked(Task::Node& node, State how, Ended& ended) {
    mark_ended_locked(node, how);
    settle_locked(ended);
}

// Tells the children and the sections of what has ended, until nothing follows from it any more. Moves it
// to `ended`, which the caller destroys without the lock.
void Engine::Core::settle_locked(Ended& ended) {
    bool awaited = false;
    while (!ending_.empty()) {
        Task::Node& node = *ending_.front();
        place_locked(node, ended.nodes);
        const bool done = node.state.load(std::memory_order_relaxed) == State::kDone;
        while (!node.children.alone()) {
            Edge& edge = static_cast<Edge&>(*node.children.after);
            edge.leave();
            if (done) satisfied_locked(*edge.child, edge.wait);
            else given_up_locked(*edge.child, edge.wait);
        }
        --unfinished_;
        awaited |= node.waiters > 0;
        if (!node.barrier) --node.section->unfinished;
        open_sections_locked();
    }
    if (awaited || (unfinished_ == 0 && all_waiters_ > 0)) ended_.notify_all();
}

// If the oldest section has nothing left but its barrier task, that is due; if not even that, the next
// section becomes the oldest.
void Engine::Core::open_sections_locked() {
    for (;;) {
        Section& oldest = sections_.front();
        if (!oldest.closed || oldest.unfinished > 0) return;
        if (oldest.barrier != nullptr) {
            if (!std::exchange(oldest.barrier_due, true)) satisfied_locked(*oldest.barrier, Wait::kTurn);
            return;
        }
        sections_.pop_front();
        Link& gated = sections_.front().gated;
        while (!gated.alone()) {
            Edge& edge = static_cast<Edge&>(*gated.after);
            edge.leave();
            satisfied_locked(*edge.child, edge.wait);
        }
    }
}

// ---- Running ---------------------------------------------------------------------------------------

bool Engine::Core::fits_locked(const Task::Node& node) const noexcept {
    if (node.bytes == 0 || charged_ == 0) return true;
    return running_bytes_ <= limits_.budget_bytes && node.bytes <= limits_.budget_bytes - running_bytes_;
}

bool Engine::Core::must_hold_back_locked(const Task::Node& node) const noexcept {
    return node.bytes > 0 && (!held_back_.empty() || !fits_locked(node));
}

// How many tasks threads could begin with now; perhaps fewer, if they do not fit together, and perhaps
// more of those held back: whoever takes one looks again.
std::size_t Engine::Core::takeable_locked() const noexcept {
    return scheduled_.size() + (!held_back_.empty() && fits_locked(*held_back_.front()) ? 1 : 0);
}

NodePtr Engine::Core::take_locked() {
    NodePtr node;
    if (!held_back_.empty() && fits_locked(*held_back_.front())) node = held_back_.front();
    while (!node && !scheduled_.empty()) {
        if (must_hold_back_locked(*scheduled_.front())) place_locked(*scheduled_.front(), held_back_);
        else node = scheduled_.front();
    }
    if (!node) return nullptr;
    place_locked(*node, running_);
    node->runner = std::this_thread::get_id();
    running_bytes_ += node->bytes;
    charged_ += node->bytes > 0 ? 1 : 0;
    node->state.store(State::kRunning, std::memory_order_release);
    return node;
}

void Engine::Core::run(NodePtr node, std::unique_lock<std::mutex>& lock) {
    Ended ended;
    lock.unlock();
    node->status = call(node->run);
    node->run = nullptr;
    lock.lock();
    running_bytes_ -= node->bytes;
    charged_ -= node->bytes > 0 ? 1 : 0;
    end_locked(*node, State::kDone, ended);
    if (threads_.empty()) summon_locked();   // the caller may not look again
    ended.nodes.erase(node->place);
    if (ended.nodes.empty()) return;
    lock.unlock();
    ended.destroy();
    lock.lock();
}

void Engine::Core::serve() {
    std::unique_lock lock(mutex_);   // whoever started this thread has counted it as looking
    for (;;) {
        NodePtr node = take_locked();
        --looking_;
        if (node) {
            summon_locked();
            run(std::move(node), lock);
            ++looking_;
            continue;
        }
        ++asleep_;
        const auto called = [this] { return summonses_ > 0 || stopping_; };
        if (limits_.idle_max == std::chrono::milliseconds::max()) ready_.wait(lock, called);
        else if (!ready_.wait_for(lock, limits_.idle_max, called)) return leave_locked();
        if (summonses_ == 0) return;
        --summonses_;
    }
}

// The thread is idle and ends. Whoever starts the next one, or destroys this, joins it.
void Engine::Core::leave_locked() {
    --asleep_;
    const auto self = std::ranges::find(threads_, std::this_thread::get_id(), &std::jthread::get_id);
    left_.push_back(std::move(*self));   // there is room: start_thread_locked has seen to it
    threads_.erase(self);
}

// Sees to it that what may begin does: every thread that is about to look finds one task.
void Engine::Core::summon_locked() {
    while (looking_ < takeable_locked()) {
        if (asleep_ > 0) {
            --asleep_;
            ++summonses_;
            ++looking_;
            ready_.notify_one();
        } else if (!start_thread_locked()) {
            break;
        }
    }
    if (threads_.empty() && waiters_ > 0 && takeable_locked() > 0) ended_.notify_all();
}

bool Engine::Core::start_thread_locked() {
    if (stopping_ || threads_.size() >= limits_.threads_max) return false;
    try {
        for (std::jthread& thread : left_) thread.join();   // they take no lock any more
        left_.clear();
        threads_.reserve(threads_.size() + 1);   // a thread that cannot be kept must not start
        left_.reserve(threads_.size() + 1);
        threads_.push_back(limits_.start_thread([this] { serve(); }));
    } catch (const std::system_error&) {
        return false;   // fewer threads than wanted serve as well, only slower
    } catch (const std::bad_alloc&) {
        return false;
    }
    ++looking_;
    return true;
}

bool Engine::Core::called_by_task_locked() const noexcept {
    return std::any_of(running_.begin(), running_.end(),
                       [self = std::this_thread::get_id()](const NodePtr& node) { return node->runner == self; });
}

// ---- Calls -----------------------------------------------------------------------------------------

void Engine::Core::begin_stop() {
    Ended ended;
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        for (Nodes* list : {&scheduled_, &held_back_})
            while (!list->empty()) mark_ended_locked(*list->front(), State::kCanceled);
        settle_locked(ended);
    }
    ready_.notify_all();
}

bool Engine::Core::stop(std::chrono::steady_clock::time_point until) {
    begin_stop();
    std::unique_lock lock(mutex_);
    ++all_waiters_;
    const bool ended = ended_.wait_until(lock, until, [this] { return running_.empty(); });
    --all_waiters_;
    return ended;
}

bool Engine::Core::assist() {
    const std::lock_guard lock(mutex_);
    const std::size_t takeable = stopping_ ? 0 : takeable_locked();
    if (asleep_ == 0 && looking_ < takeable && threads_.size() >= limits_.threads_max) {
        ++limits_.threads_max;
        summon_locked();
    }
    return takeable > 0;
}

void Engine::Core::allow(std::size_t threads) {
    const std::lock_guard lock(mutex_);
    limits_.threads_max = std::max(limits_.threads_max, threads);
}

Engine::Core::~Core() {
    begin_stop();
    for (auto* threads : {&left_, &threads_})
        for (std::jthread& thread : *threads) thread.join();   // what becomes free to run meanwhile is canceled
}

Submitted Engine::Core::submit(Request request) {
    Ended ended;
    const auto node = std::make_shared<Task::Node>();
    node->engine = this;
    node->run = std::move(request.run);
    node->bytes = request.bytes;
    node->barrier = request.barrier;
    if (const std::size_t parents = request.parents.size() + request.sufficient_parents.size(); parents > 0)
        node->edges = std::make_unique<Edge[]>(parents);
    Nodes fresh{node};
    node->list = &fresh;
    node->place = fresh.begin();

    const std::lock_guard lock(mutex_);
    node->section = &sections_.back();
    if (node->barrier) sections_.emplace_back();   // the last thing that may fail
    ++unfinished_;
    place_locked(*node, waiting_);
    link_locked(*node, request);
    open_sections_locked();
    settle_locked(ended);
    summon_locked();
    return {Task(node), Status::ok(), !threads_.empty()};
}

bool Engine::Core::cancel(Task::Node& node) {
    Ended ended;
    const std::lock_guard lock(mutex_);
    switch (node.state.load(std::memory_order_relaxed)) {
        case State::kCanceled: return true;
        case State::kRunning:
        case State::kDone: return false;
        default: break;
    }
    end_locked(node, State::kCanceled, ended);
    summon_locked();   // it may have been the last one before a barrier
    return true;
}

Status Engine::Core::wait(Task::Node* awaited) {
    const auto over = [&] {
        return awaited != nullptr ? has_ended(awaited->state.load(std::memory_order_relaxed)) : unfinished_ == 0;
    };
    std::unique_lock lock(mutex_);
    if (over()) return Status::ok();
    if (called_by_task_locked())
        return {Code::kInvalidArgument, "a task waits for tasks of its own engine: name them as its parents"};
    std::size_t& waiters = awaited != nullptr ? awaited->waiters : all_waiters_;
    ++waiters;
    ++waiters_;
    while (!over()) {
        NodePtr node = threads_.empty() ? take_locked() : nullptr;
        if (node) run(std::move(node), lock);
        else ended_.wait(lock);
    }
    --waiters_;
    --waiters;
    return Status::ok();
}

Engine::Engine(Limits limits) : core_(std::make_unique<Core>(std::move(limits))) {}

Engine::~Engine() = default;

Submitted Engine::submit(Request request) {
    if (!core_) return {{}, {Code::kUnavailable, "submit a task: the engine's threads were forgotten"}, false};
    if (!request.run) return {{}, {Code::kInvalidArgument, "submit a task: it has no function"}, false};
    for (const auto& parents : {request.parents, request.sufficient_parents})
        for (const Task& parent : parents)
            if (!parent || parent.node_->engine != core_.get())
                return {{}, {Code::kInvalidArgument, "submit a task: a parent is no task of this engine"}, false};
    return core_->submit(std::move(request));
}

bool Engine::cancel(const Task& task) {
    if (!task) return false;
    if (task.state() == State::kCanceled) return true;
    return core_ && task.node_->engine == core_.get() && core_->cancel(*task.node_);
}

Status Engine::wait(const Task& task) {
    if (!task) return {Code::kInvalidArgument, "wait for a task: there is none"};
    if (!has_ended(task.state())) {
        if (!core_ || task.node_->engine != core_.get())
            return {Code::kInvalidArgument, "wait for a task: it is no task of this engine"};
        FOREBAY_TRY(core_->wait(task.node_.get()));
    }
    return task.status();
}

Status Engine::wait_all() {
    if (!core_) return {Code::kInvalidArgument, "wait for all tasks: the engine's threads were forgotten"};
    return core_->wait(nullptr);
}

void Engine::allow(std::size_t threads) {
    if (core_) core_->allow(threads);
}

bool Engine::assist() { return core_ && core_->assist(); }

bool Engine::stop(std::chrono::steady_clock::time_point until) { return !core_ || core_->stop(until); }

void Engine::forget_threads() noexcept {
    // Not even destroyed: threads that do not exist cannot be joined, and sleepers that are gone do not wake.
    (void)core_.release();
}

}   // namespace forebay::task
