//! From the command line to a broker that serves: each step may refuse, with a sentence.

mod outside;

use crate::catalog_state::CatalogState;
use crate::clock::SystemClock;
use crate::control::Control;
use crate::core_task::{self, Message, Plan};
use crate::cpus::{self, Choice};
use crate::credentials::{OpenTokens, print_new_token};
use crate::data_dir::DataDir;
use crate::kafka_core::{KafkaPlan, Security};
use crate::listeners::{self, Listeners};
use crate::mailbox::{Inside, Outside, mailbox};
use crate::probe::{self, Needs};
use crate::quotas::QuotaPlan;
use crate::readiness::Phase;
use crate::settings::{self, Outcome, Settings, Storage};
use crate::tls_files::OpenTls;
use crate::{announce, blocking, catalog_file, check, dev, logging, ports, shutdown, stream_dirs};
use crossbeam_channel::Receiver;
use felix_core::limits::WRITE_ON_CORE_BYTES_MAX;
use felix_core::stalls::StallBounds;
use felix_core::{Catalog, CpuId, Generation, ShardId};
use felix_shard::log::LogConfig;
use felix_shard::{CoreConfig, ShardSpec, SpaceConfig};
use rustix::thread::{MembarrierCommand, membarrier};
use std::io::{self, Write};
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::watch;

/// The exit code for a command line or environment that is not understood.
const EXIT_USAGE: u8 = 2;

/// The exit code for everything else that keeps the broker from running.
const EXIT_FAILURE: u8 = 1;

/// The exit code of a broker that ended as it was asked to, and could not close every log it had
/// opened: a supervisor is to tell somebody, and need not start it again.
const EXIT_UNCLOSED: u8 = 3;

/// What the main thread is told.
#[derive(Debug)]
pub(crate) enum Event {
    /// A signal asks for the end.
    Signal(&'static str),
    /// Every shard of the core is open or has failed; those that are open.
    CoreOpened {
        /// The core.
        core: CpuId,
        /// Its open shards.
        open: Vec<(ShardId, Generation)>,
    },
    /// A shard that had failed was opened again.
    ShardReopened {
        /// Which.
        shard: ShardId,
        /// The generation that clients see from now on.
        generation: Generation,
    },
    /// The core has no connections any more.
    CoreDrained(CpuId),
    /// The core has ended as it was asked to.
    CoreEnded {
        /// The core.
        core: CpuId,
        /// Shards whose logs were open and are not closed.
        unclosed: Vec<ShardId>,
    },
    /// The core cannot run.
    CoreFailed {
        /// The core.
        core: CpuId,
        /// Why.
        fault: String,
    },
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        // A name that is no text is none of ours; a value that is none fails its own check.
        Some((
            name.into_string().ok()?,
            value.to_string_lossy().into_owned(),
        ))
    });
    match settings::read(words, variables) {
        Ok(Outcome::Print(text)) => {
            // Whoever closed the pipe has seen enough.
            drop(write!(io::stdout(), "{text}"));
            ExitCode::SUCCESS
        }
        Ok(Outcome::NewToken(whose)) => match print_new_token(&whose) {
            Ok(()) => ExitCode::SUCCESS,
            Err(fault) => complain(&fault, EXIT_USAGE),
        },
        Ok(Outcome::Check(settings)) => match check::check(&settings) {
            Ok(()) => ExitCode::SUCCESS,
            Err(fault) => complain(&fault, EXIT_USAGE),
        },
        Ok(Outcome::Run(settings)) => match run(&settings) {
            Ok(0) => ExitCode::SUCCESS,
            Ok(unclosed) => complain(&not_closed(unclosed), EXIT_UNCLOSED),
            Err(fault) => complain(&fault, EXIT_FAILURE),
        },
        Err(error) => complain(&error.to_string(), EXIT_USAGE),
    }
}

fn complain(fault: &str, code: u8) -> ExitCode {
    // With standard error closed, the exit code is all that can be said.
    drop(writeln!(io::stderr(), "felix-broker: {fault}"));
    ExitCode::from(code)
}

fn not_closed(shards: usize) -> String {
    format!(
        "ended as asked, but the logs of {shards} shard(s) are not closed; the log says why, \
         and the next start recovers them"
    )
}

/// A broker that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) cores: Vec<Outside<Message>>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) events: Receiver<Event>,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) control: Control,
    /// The catalog's memory, and the lock of the directory; `None` without durable storage.
    pub(crate) storage: Option<(DataDir, CatalogState)>,
}

/// Runs until it is asked to end; how many shards then have a log that is not closed.
fn run(settings: &Settings) -> Result<usize, String> {
    // Before any thread: glommio uses it, and registering it later costs each thread 9 ms at its
    // first sleep. A kernel without it makes sleeping slower and nothing else.
    let membarrier = membarrier(MembarrierCommand::RegisterPrivateExpedited);
    let choice = cpus::read()
        .map_err(|error| format!("the kernel does not say which processors there are: {error}"))
        .and_then(|readings| cpus::choose(settings.cores.as_ref(), &readings))?;
    // Every thread started from here on is a side thread, but the cores, which pin themselves.
    cpus::confine(&choice.side)
        .map_err(|error| format!("side threads cannot move to {}: {error}", choice.side))?;
    let log = logging::start(&settings.logging)?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        "felix-broker"
    );
    if let Err(error) = membarrier {
        tracing::warn!(%error, "membarrier cannot be registered; first sleeps will be slow");
    }
    let result = start(settings, &choice).and_then(|mut running| {
        let served = running.serve();
        shutdown::shut_down(running, settings.drain_timeout, served)
    });
    match &result {
        Ok(0) => tracing::info!("ended"),
        Ok(unclosed) => tracing::error!(unclosed, "ended, and not every log is closed"),
        Err(fault) => tracing::error!(fault, "ended"),
    }
    drop(log);
    result
}

fn start(settings: &Settings, choice: &Choice) -> Result<Running, String> {
    announce::warn(settings);
    let cores = core_count(choice);
    let machine = probe::read();
    let needs = needs(settings, cores, 0);
    probe::judge(&machine, needs).map_err(|refusal| refusal.to_string())?;
    tracing::info!(kernel = machine.kernel, "io_uring works");
    tracing::info!(
        cores,
        processors = %choice.pinned,
        side_threads = %choice.side,
        reason = choice.reason,
        "cores"
    );
    ports::judge(settings, cores)?;
    let tokens = OpenTokens::open(settings)?;
    let (mut storage, catalog) = open_catalog(settings)?;
    let shards = catalog
        .streams()
        .iter()
        .map(|stream| u64::from(stream.shards))
        .sum();
    let room =
        probe::judge(&machine, Needs { shards, ..needs }).map_err(|refusal| refusal.to_string())?;
    tracing::info!(
        files = machine.files,
        shards_that_fit = room.shards,
        log_files_per_core = room.files_per_core,
        shards,
        "open files"
    );

    let tls = OpenTls::open(settings, storage.as_ref().map(|(data, _)| data))?;
    let http = TcpListener::bind(settings.metrics_bind).map_err(|error| {
        let error = io::Error::new(
            error.kind(),
            format!("cannot listen on {}: {error}", settings.metrics_bind),
        );
        listeners::refusal(&error, "FELIX_BROKER_METRICS_BIND")
    })?;
    let http_address = http.local_addr().unwrap_or(settings.metrics_bind);
    let kafka = match &settings.kafka {
        None => None,
        Some(kafka) => Some(Listeners::bind(kafka, settings, cores)?),
    };
    announce::tell_listeners(kafka.as_ref(), http_address);
    if let Some((data, state)) = &mut storage {
        let kept = state.keep(data, &catalog);
        kept.map_err(|error| error.to_string())?;
    }
    if settings.dev
        && let (Some(listeners), Some((data, _))) = (&kafka, &storage)
    {
        let tour = dev::tour(
            listeners.shared,
            http_address,
            &listeners.topology,
            data.path(),
        );
        drop(write!(io::stdout(), "{tour}"));
    }
    let config = core_config(&settings.storage, storage.as_ref(), room.files_per_core);
    let outlets = Outlets {
        http,
        kafka,
        tokens,
        tls,
    };
    launch(settings, choice, config, storage, catalog, outlets)
}

fn needs(settings: &Settings, cores: u16, shards: u64) -> Needs {
    let connections = settings.kafka.as_ref().map_or(0, |kafka| {
        let nodes = if kafka.core_port_base.is_some() {
            1 + u64::from(cores)
        } else {
            1
        };
        nodes * u64::from(kafka.connections_max)
    });
    Needs {
        cores: u64::from(cores),
        connections,
        shards,
        file_bytes: settings.storage.file_bytes(),
    }
}

/// The streams, and the directory that remembers who they are.
fn open_catalog(settings: &Settings) -> Result<(Option<(DataDir, CatalogState)>, Catalog), String> {
    let file = settings.catalog_file.as_deref();
    let listed = catalog_file::listed(file, settings.dev, &settings.storage.stream_defaults())?;
    let Some(directory) = &settings.storage.directory else {
        if listed.is_empty() {
            tracing::warn!("no data directory and no streams: there is nothing to serve");
            return Ok((None, Catalog::default()));
        }
        return Err(check::NOWHERE.into());
    };
    let data = DataDir::lock(directory)?;
    tracing::info!(path = %data.path().display(), "data directory");
    let now = SystemClock.unix_seconds();
    let mut state = CatalogState::load(&data, now).map_err(|error| error.to_string())?;
    let catalog = state
        .catalog(&listed, &data, now)
        .map_err(|error| error.to_string())?;
    tell_unlisted(&data, &catalog)?;
    for stream in catalog.streams() {
        tracing::info!(
            tenant = stream.tenant,
            topic = stream.topic(),
            id = %stream.id,
            shards = stream.shards,
            durability = ?stream.durability,
            timestamps = ?stream.timestamps,
            "stream"
        );
    }
    Ok((Some((data, state)), catalog))
}

fn tell_unlisted(data: &DataDir, catalog: &Catalog) -> Result<(), String> {
    let streams = stream_dirs::unlisted(data, catalog)
        .map_err(|fault| format!("the streams on disk cannot be told: {fault}"))?;
    if streams > 0 {
        tracing::warn!(
            streams,
            "streams on disk are not in the catalog: they are not served, and their logs are left \
             as they are"
        );
    }
    Ok(())
}

/// Where others reach the broker.
struct Outlets {
    http: TcpListener,
    kafka: Option<Listeners>,
    tokens: Option<OpenTokens>,
    tls: Option<OpenTls>,
}

fn launch(
    settings: &Settings,
    choice: &Choice,
    config: CoreConfig,
    storage: Option<(DataDir, CatalogState)>,
    catalog: Catalog,
    outlets: Outlets,
) -> Result<Running, String> {
    let Outlets {
        http,
        kafka,
        tokens,
        tls,
    } = outlets;
    let (tell, events) = crossbeam_channel::unbounded();
    let boxes: Vec<(Outside<Message>, Inside<Message>)> =
        choice.pinned.cpus().iter().map(|_| mailbox()).collect();
    let cores: Vec<Outside<Message>> = boxes.iter().map(|(outside, _)| outside.clone()).collect();
    let (phase, phase_seen) = watch::channel(Phase::Opening);
    let security = Security {
        tls: tls.as_ref().map(|tls| tls.config().clone()),
        tokens: tokens.as_ref().map(OpenTokens::tokens),
    };
    let beside = outside::Beside {
        phase: phase_seen,
        tell: tell.clone(),
        tokens,
        tls,
    };
    let control = outside::start(settings, http, &cores, beside)?;

    let catalog = Arc::new(catalog);
    let specs = shard_specs(&catalog, storage.as_ref());
    let (heavy, heavy_threads) = blocking::start(core_count(choice))
        .map_err(|error| format!("the threads for heavy work cannot start: {error}"))?;
    let mut plans = kafka_plans(settings, kafka, &security, &cores)?.into_iter();
    let mut threads = Vec::new();
    let lanes = felix_shard::mesh(core_count(choice));
    for ((cpu, lanes), (_, inside)) in choice.pinned.cpus().iter().zip(lanes).zip(boxes) {
        let plan = Plan {
            core: lanes.core(),
            cpu: *cpu,
            lanes,
            storage: config.clone(),
            heavy: heavy.clone(),
            vigil: settings.core.spin,
            stalls: stall_bounds(settings),
            shards: specs.clone(),
            catalog: Arc::clone(&catalog),
            quota: QuotaPlan::of(settings.publish.as_ref(), &cores),
            kafka: plans.next(),
            inside,
            events: tell.clone(),
        };
        let core = plan.core;
        let thread = core_task::start(plan);
        threads.push(thread.map_err(|error| format!("core {core} cannot start: {error}"))?);
    }
    // Behind the cores, which hold the last handles: without those, these end.
    threads.extend(heavy_threads);
    Ok(Running {
        cores,
        threads,
        events,
        phase,
        control,
        storage,
    })
}

fn stall_bounds(settings: &Settings) -> StallBounds {
    StallBounds {
        counted: settings.core.stall_counted,
        reported: settings.core.stall_logged,
    }
}

fn kafka_plans(
    settings: &Settings,
    listeners: Option<Listeners>,
    security: &Security,
    cores: &[Outside<Message>],
) -> Result<Vec<KafkaPlan>, String> {
    let (Some(listeners), Some(kafka), Some(keeper)) = (listeners, &settings.kafka, cores.first())
    else {
        return Ok(Vec::new());
    };
    let memory = settings.core.memory_bytes_max;
    KafkaPlan::of_cores(listeners, kafka, settings.broker, memory, security, keeper)
}

fn core_count(choice: &Choice) -> u16 {
    choice.pinned.count()
}

fn shard_specs(catalog: &Catalog, storage: Option<&(DataDir, CatalogState)>) -> Vec<ShardSpec> {
    // Without a data directory the catalog is empty.
    let Some((data, state)) = storage else {
        return Vec::new();
    };
    let mut specs = Vec::new();
    for stream in catalog.streams() {
        for spec in ShardSpec::of_stream(data.path(), stream) {
            let if_lost = state.cure_if_lost(data, stream, spec.id.index);
            specs.push(spec.noted(if_lost));
        }
    }
    specs
}

fn core_config(
    storage: &Storage,
    place: Option<&(DataDir, CatalogState)>,
    files_max: Option<usize>,
) -> CoreConfig {
    let space = place.map(|(data, _)| SpaceConfig {
        directory: data.path().to_owned(),
        free_bytes_min: storage.disk_free_bytes_min,
    });
    if let Some(space) = &space
        && let Err(error) = space.reserve().make(space.free_bytes_min)
    {
        tracing::warn!(%error, "there is no reserve for a full disk");
    }
    CoreConfig {
        space,
        log: LogConfig {
            segment_bytes_max: u64::from(storage.segment_bytes),
            index_interval_bytes: storage.index_spacing_bytes,
        },
        flush_interval: storage.flush_interval,
        dirty: storage.dirty,
        retention_interval: storage.retention_interval,
        verify_on_open: storage.verify_on_open,
        tail_bytes_max: storage.tail_cache_bytes,
        files_max: files_max.unwrap_or(usize::MAX),
        write_on_core_bytes_max: WRITE_ON_CORE_BYTES_MAX,
    }
}

impl Running {
    /// Serves until it is asked to end, which is fine, or cannot go on, which is not.
    fn serve(&mut self) -> Result<(), String> {
        let mut opening = self.cores.len();
        loop {
            let event = self.events.recv();
            match event.expect("the control thread holds a sender") {
                Event::Signal(name) => {
                    tracing::info!(signal = name, "shutting down");
                    return Ok(());
                }
                Event::CoreOpened { core, open } => {
                    tracing::debug!(%core, shards = open.len(), "opened");
                    self.note(&open);
                    opening -= 1;
                    if opening == 0 {
                        self.phase.send_replace(Phase::Serving);
                        tracing::info!("ready");
                    }
                }
                Event::ShardReopened { shard, generation } => self.note(&[(shard, generation)]),
                Event::CoreDrained(core) | Event::CoreEnded { core, .. } => {
                    return Err(format!("core {core} ended by itself"));
                }
                Event::CoreFailed { core, fault } => return Err(format!("core {core}: {fault}")),
            }
        }
    }

    /// Remembers logs that were not founded here, and the generations of those that knew greater
    /// ones than the catalog's state. All others were noted before they were opened.
    fn note(&mut self, open: &[(ShardId, Generation)]) {
        let Some((data, state)) = &mut self.storage else {
            return;
        };
        let mut news = false;
        for (shard, generation) in open {
            news |= state.note(*shard, *generation);
        }
        if news && let Err(error) = state.store(data) {
            // The next start notes it again.
            tracing::warn!(%error, "what was opened could not be noted");
        }
    }
}
