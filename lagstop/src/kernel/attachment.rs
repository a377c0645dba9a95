//! A program on its hook.

use std::{any::Any, borrow::Cow};

use aya::{
    Btf as AyaBtf, Ebpf,
    programs::{BtfTracePoint, FEntry, FExit, KProbe, ProgramError, RawTracePoint, TracePoint},
};

use super::{
    error::KernelError,
    facts::Facts,
    loaded::{program, refused},
    tracefs::with_tracefs,
    way::{At, Probe},
};

/// A program, and where it belongs. It comes off its hook when this is dropped.
pub(super) struct Attachment {
    program: Cow<'static, str>,
    at: At,
    has_types: bool,
    /// What the kernel calls a function, where the compiler gave it another name.
    symbol: String,
    /// Only for timing switches?
    pub(super) times: bool,
    /// What holds it there. Dropping it detaches.
    link: Option<Box<dyn Any + Send>>,
}

impl Attachment {
    /// Loads the program of `probe`, and attaches it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn new(
        probe: &Probe,
        (has_types, times): (bool, bool),
        facts: &Facts,
        btf: Option<&AyaBtf>,
        ebpf: &mut Ebpf,
    ) -> Result<Self, KernelError> {
        let target = probe.at.target();
        let mut this = Self {
            program: probe.program(has_types),
            at: probe.at,
            has_types,
            symbol: facts.symbol(target).unwrap_or_else(|| target.to_owned()),
            times,
            link: None,
        };
        this.load(ebpf, btf)?;
        this.attach(ebpf)?;
        Ok(this)
    }

    fn load(&self, ebpf: &mut Ebpf, btf: Option<&AyaBtf>) -> Result<(), KernelError> {
        let btf =
            || btf.ok_or_else(|| KernelError::refused(format!("program on {}", self.at), "the kernel shows no types"));
        let loaded = match self.at {
            At::Tracepoint(name) if self.has_types => program::<BtfTracePoint>(ebpf, &self.program)?.load(name, btf()?),
            At::Tracepoint(_) => program::<RawTracePoint>(ebpf, &self.program)?.load(),
            At::Entry(name) => program::<FEntry>(ebpf, &self.program)?.load(name, btf()?),
            At::Exit(name) => program::<FExit>(ebpf, &self.program)?.load(name, btf()?),
            At::Kprobe(_) | At::Kretprobe(_) => program::<KProbe>(ebpf, &self.program)?.load(),
            At::Syscall(_) => program::<TracePoint>(ebpf, &self.program)?.load(),
        };
        loaded.map_err(|error| refused(self.at.target(), error))
    }

    /// Puts the loaded program on its hook, where it is not there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn attach(&mut self, ebpf: &mut Ebpf) -> Result<(), KernelError> {
        if self.link.is_some() {
            return Ok(());
        }
        let failed = |error: ProgramError| refused(self.at.target(), error);
        macro_rules! attach {
            ($kind:ty, $($argument:expr),*) => {{
                let program: &mut $kind = program(ebpf, &self.program)?;
                let link = program.attach($($argument),*).and_then(|link| program.take_link(link)).map_err(failed)?;
                Box::new(link)
            }};
        }
        self.link = Some(match self.at {
            At::Tracepoint(_) if self.has_types => attach!(BtfTracePoint,),
            At::Tracepoint(name) => attach!(RawTracePoint, name),
            At::Entry(_) => attach!(FEntry,),
            At::Exit(_) => attach!(FExit,),
            At::Kprobe(_) | At::Kretprobe(_) => attach!(KProbe, &self.symbol, 0),
            At::Syscall(name) => {
                let program: &mut TracePoint = program(ebpf, &self.program)?;
                let attached = with_tracefs(|| program.attach("syscalls", name))
                    .map_err(|why| KernelError::refused(name, why))?
                    .and_then(|link| program.take_link(link));
                Box::new(attached.map_err(failed)?)
            }
        });
        Ok(())
    }

    pub(super) fn detach(&mut self) {
        self.link = None;
    }
}
