//! Choosing the process's plugin and making its client.
//!
//! | variable | meaning |
//! |---|---|
//! | `TORCH_PJRT_PLUGIN` | path of the plugin's library; nothing else is looked at |
//! | `PJRT_DEVICE` | `CPU`, `TPU`, `CUDA`, …, or the name of an installed plugin |
//! | `TORCH_PJRT_CLIENT_OPTIONS` | create options, `name=value` separated by commas |

use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::options::parse_assignments;
use super::platform::Platform;
use super::{Client, Code, Installed, NamedValue, Plugin, discover, environment, existing_client, search_roots};
use crate::{Error, Result};

/// The plugin that the environment asks for, and how its client will be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub plugin: Installed,
    /// Create options from [`set_client_options`] and `TORCH_PJRT_CLIENT_OPTIONS`; the platform's defaults come on top.
    pub options: Vec<(String, NamedValue)>,
    /// Why this one, in words.
    pub reason: String,
}

/// What the environment says, apart from the environment so that tests can say it too.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// `TORCH_PJRT_PLUGIN`.
    pub path: Option<PathBuf>,
    /// `PJRT_DEVICE`.
    pub device: Option<String>,
    /// `TORCH_PJRT_CLIENT_OPTIONS`.
    pub options: Option<String>,
}

impl Request {
    /// Reads the environment. An empty variable is an unset one.
    pub fn from_env() -> Self {
        let get = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let text = |name| get(name).map(|value| value.to_string_lossy().into_owned());
        Self {
            path: get("TORCH_PJRT_PLUGIN").map(PathBuf::from),
            device: text("PJRT_DEVICE"),
            options: text("TORCH_PJRT_CLIENT_OPTIONS"),
        }
    }
}

static OPTIONS: Mutex<Vec<(String, NamedValue)>> = Mutex::new(Vec::new());

/// Sets create options for the client of this process, such as `cpu_device_count`.
///
/// # Errors
/// [`Error::Argument`] once the client exists.
pub fn set_client_options(options: Vec<(String, NamedValue)>) -> Result<()> {
    if existing_client().is_some() {
        return Err(Error::Argument {
            call: "set_client_options",
            argument: "options",
            got: "a call after the first use of the device".to_owned(),
            expected: "a call before it, because the client is made once".to_owned(),
        });
    }
    *OPTIONS.lock() = options;
    Ok(())
}

/// A variable of the environment, what it may be in words, and whether it may be a value.
type Setting = (&'static str, &'static str, fn(&str) -> bool);

const SETTINGS: [Setting; 4] = [
    ("TORCH_PJRT_FALLBACK", "error, or no such variable", |v| v.eq_ignore_ascii_case("error")),
    ("TORCH_PJRT_LAUNCH", "inline, thread, or no such variable", |v| matches!(v, "inline" | "thread")),
    ("TORCH_PJRT_CACHE", "0, off, or no such variable", |v| v == "0" || v.eq_ignore_ascii_case("off")),
    ("TORCH_PJRT_CACHE_MAX_BYTES", "a number of bytes", |v| v.parse::<u64>().is_ok()),
];

/// Refuses settings that would otherwise be as if they were not there. An empty variable is an unset one.
///
/// # Errors
/// [`Error::Argument`] with the variable, its value and what it may be.
pub fn check_settings(get: impl Fn(&str) -> Option<String>) -> Result<()> {
    for (call, expected, is_fine) in SETTINGS {
        if let Some(got) = get(call).filter(|v| !v.is_empty() && !is_fine(v)) {
            return Err(Error::Argument { call, argument: "value", got, expected: expected.to_owned() });
        }
    }
    Ok(())
}

/// The plugin that the environment asks for.
///
/// # Errors
/// [`Error::PluginNotFound`], [`Error::UnknownDevice`], [`Error::NoPlugin`], [`Error::NoDevice`], and as for
/// [`check_settings`].
pub fn select() -> Result<Choice> {
    check_settings(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))?;
    let mut choice = select_from(&Request::from_env(), discover(), Platform::has_chip)?;
    let mut options = OPTIONS.lock().clone();
    options.append(&mut choice.options);
    Ok(Choice { options, ..choice })
}

/// Chooses among `installed`, best first; `has_chip` tells whether the machine has a platform's device.
///
/// # Errors
/// As for [`select`].
pub fn select_from(
    request: &Request,
    installed: Vec<Installed>,
    has_chip: impl Fn(Platform) -> bool,
) -> Result<Choice> {
    let options = parse_assignments("TORCH_PJRT_CLIENT_OPTIONS", request.options.as_deref().unwrap_or_default())?;
    let choose = |plugin, reason| Ok(Choice { plugin, options, reason });
    if let Some(path) = &request.path {
        if !path.is_file() {
            return Err(Error::PluginNotFound { path: path.clone() });
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let platform = Platform::guess(&name, path);
        return choose(Installed { name, path: path.clone(), platform }, "TORCH_PJRT_PLUGIN".to_owned());
    }
    if let Some(value) = &request.device {
        let is_named = |plugin: &Installed| {
            plugin.name.eq_ignore_ascii_case(value)
                || plugin.path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case(value.as_str()))
        };
        let by_name = installed.iter().position(is_named);
        let by_platform = || installed.iter().position(|plugin| plugin.platform.is_called(value));
        return match by_name.or_else(by_platform) {
            Some(at) => choose(installed[at].clone(), format!("PJRT_DEVICE={value}")),
            None => Err(Error::UnknownDevice { value: value.clone(), found: names(&installed) }),
        };
    }
    // A plugin may be installed only to compile for a chip that is elsewhere, so the chip decides.
    match installed.iter().find(|plugin| has_chip(plugin.platform)) {
        Some(plugin) => choose(plugin.clone(), "the best one installed".to_owned()),
        None => match installed.first() {
            Some(plugin) => Err(Error::NoDevice {
                plugin: plugin.name.clone(),
                message: format!("no {} device file exists, and no CPU plugin is installed", plugin.platform),
            }),
            None => Err(Error::NoPlugin { roots: search_roots() }),
        },
    }
}

/// What `PJRT_DEVICE` would accept: platforms, then names.
fn names(installed: &[Installed]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let platforms = installed.iter().map(|plugin| plugin.platform).filter(|platform| *platform != Platform::Other);
    for name in platforms.map(|platform| platform.name().to_owned()).chain(installed.iter().map(|p| p.name.clone())) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Create options of a platform unless the user sets them.
///
/// A CPU is one device, as in torch. With `asynchronous=false` a CPU program runs on the calling thread, which spares
/// tens of microseconds of hand-over; plugins without that option ignore it or are asked again without it.
fn default_options(platform: Platform) -> Vec<(String, NamedValue)> {
    match platform {
        Platform::Cpu => vec![
            ("cpu_device_count".to_owned(), NamedValue::Int(1)),
            ("asynchronous".to_owned(), NamedValue::Bool(false)),
        ],
        _ => Vec::new(),
    }
}

/// Makes the client that the environment asks for.
pub(super) fn make() -> Result<&'static Client> {
    let choice = select()?;
    make_from(&choice)
}

/// Makes the client of a choice.
///
/// # Errors
/// As for [`Plugin::load`] and [`Client::create`].
pub fn make_from(choice: &Choice) -> Result<&'static Client> {
    let platform = choice.plugin.platform;
    if platform == Platform::Tpu && !platform.has_chip() {
        environment::without_tpu();
    }
    let plugin = Plugin::load(Path::new(&choice.plugin.path))?;
    let merged = |defaults: Vec<(String, NamedValue)>| {
        let mut options = choice.options.clone();
        for (name, value) in defaults {
            if !options.iter().any(|(set, _)| *set == name) {
                options.push((name, value));
            }
        }
        options
    };
    let create = |options: Vec<(String, NamedValue)>| {
        let options: Vec<_> = options.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        Client::create(plugin, &options)
    };
    match create(merged(default_options(platform))) {
        // The user's own options are never dropped; the defaults are only hints.
        Err(Error::Pjrt { code: Code::InvalidArgument | Code::Unimplemented, .. }) => create(choice.options.clone()),
        made => made,
    }
}
