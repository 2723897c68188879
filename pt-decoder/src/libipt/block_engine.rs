//! libipt's block decoder over a trace and one or several images.

use super::{ExecutedBlock, Fault, PreparedImage, TraceSetup, over};
use crate::gap::GapReason;
use ::libipt::{
    block::BlockDecoder,
    enc_dec_builder::{Cpu, Frequency},
    error::{PtError, PtErrorCode},
    event::{AsyncDisabled, Disabled, Enabled, Event, Overflow},
    image::Image,
    status::Status,
};
use sketch_model::{RuntimeAddress, Tsc};
use std::{cell::Cell, marker::PhantomData, ptr::NonNull, rc::Rc};

/// What a call of the block decoder said beyond its result.
#[derive(Clone, Copy)]
pub(crate) struct Outlook {
    pub(crate) event_pending: bool,
    /// No trace is left: what the decoder would say next is not confirmed.
    pub(crate) trace_used_up: bool,
}

impl From<Status> for Outlook {
    fn from(status: Status) -> Self {
        Self {
            event_pending: status.event_pending(),
            trace_used_up: status.eos(),
        }
    }
}

/// The events that matter to a list of blocks.
pub(crate) enum FlowEvent {
    TracingOn {
        at: Option<Tsc>,
    },
    /// Before the instruction at that address, if something interrupted it.
    TracingOff {
        before: Option<RuntimeAddress>,
    },
    Overflow {
        tracing: bool,
        at: Option<Tsc>,
    },
    Other,
}

/// Images that the decoder refers to.
struct OwnedImages(Vec<NonNull<Image>>);

impl Drop for OwnedImages {
    fn drop(&mut self) {
        for image in &self.0 {
            // SAFETY: made by `Box::into_raw`, freed here alone, and the decoder
            // that referred to it is gone (see the fields of `BlockEngine`).
            drop(unsafe { Box::from_raw(image.as_ptr()) });
        }
    }
}

/// libipt's block decoder.
pub(crate) struct BlockEngine<'t> {
    /// Dropped before the images, which it refers to: fields drop in order.
    decoder: BlockDecoder<'t>,
    images: OwnedImages,
    used: usize,
    unreadable: Rc<Cell<u64>>,
    /// The images read their code: by callback, and from files that stay open.
    _prepared: Vec<PreparedImage<'t>>,
    /// The decoder reads the trace.
    borrowed: PhantomData<&'t [u8]>,
}

impl<'t> BlockEngine<'t> {
    /// Begins with the first of the images.
    pub(crate) fn new(
        trace: &'t [u8],
        prepared: &[PreparedImage<'t>],
        setup: TraceSetup,
    ) -> Result<Self, GapReason> {
        // Ending blocks at direct calls and jumps keeps each one contiguous.
        let decoder = over::<BlockDecoder<'t>>(trace, |builder| {
            let mut builder = builder.set_end_on_call(true).set_end_on_jump(true);
            if let Some(it) = setup.cpu {
                builder = builder.cpu(Cpu::intel(it.family, it.model, it.stepping));
            }
            if let Some(it) = setup.frequency {
                let rates = Frequency::new(it.mtc, it.nominal, it.counter, it.crystal);
                builder = builder.freq(rates);
            }
            builder
        })?;
        let unreadable = Rc::new(Cell::new(0));
        let images = prepared
            .iter()
            .map(|it| it.image(&unreadable))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| GapReason::Decoder(error.msg().into()))?
            .into_iter()
            .map(|image| NonNull::from(Box::leak(Box::new(image))))
            .collect();
        let mut engine = Self {
            decoder,
            images: OwnedImages(images),
            used: usize::MAX,
            unreadable,
            _prepared: prepared.to_vec(),
            borrowed: PhantomData,
        };
        engine
            .use_image(0)
            .map_err(|_| GapReason::Decoder("libipt refuses the image".into()))?;
        Ok(engine)
    }

    /// Goes on with another image; one that does not exist changes nothing.
    pub(crate) fn use_image(&mut self, number: usize) -> Result<(), Fault> {
        let Some(image) = self.images.0.get(number) else {
            return Ok(());
        };
        if number != self.used {
            // SAFETY: the image lives until after the decoder, and nobody else
            // refers to it while the decoder does.
            let image = unsafe { &mut *image.as_ptr() };
            self.decoder.set_image(Some(image))?;
            self.used = number;
        }
        Ok(())
    }

    pub(crate) fn sync_at(&mut self, offset: u64) -> Result<(), Fault> {
        self.decoder.set_sync(offset).map_err(|it| self.fault(it))
    }

    /// How far the trace has been used.
    pub(crate) fn offset(&self) -> Option<u64> {
        self.decoder.offset().ok()
    }

    /// The counter at the last timing packet.
    pub(crate) fn time(&mut self) -> Option<Tsc> {
        self.decoder.time().ok().map(|(tsc, _, _)| Tsc(tsc))
    }

    /// The pending event, or `None` if there is none after all.
    pub(crate) fn event(&mut self) -> Result<Option<(FlowEvent, Outlook)>, Fault> {
        match self.decoder.event() {
            Ok((event, status)) => Ok(Some((flow_event(event), status.into()))),
            Err(error) if error.code() == PtErrorCode::BadQuery => Ok(None),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// The next block; `None` if only an event was reached.
    #[inline]
    pub(crate) fn block(&mut self) -> Result<(Option<ExecutedBlock>, Outlook), Fault> {
        let (block, status) = self.decoder.decode_next().map_err(|it| self.fault(it))?;
        let block = (block.ninsn() > 0).then(|| ExecutedBlock {
            start: RuntimeAddress(block.ip()),
            last: RuntimeAddress(block.end_ip()),
            instructions: block.ninsn().into(),
        });
        Ok((block, status.into()))
    }

    fn fault(&self, error: PtError) -> Fault {
        if error.code() == PtErrorCode::Nomap {
            let at = RuntimeAddress(self.unreadable.get());
            return Fault::Broken(GapReason::NoCode { at });
        }
        error.into()
    }
}

fn flow_event(event: Event) -> FlowEvent {
    let at = event.tsc().map(Tsc);
    if Enabled::try_from(event).is_ok() {
        FlowEvent::TracingOn { at }
    } else if let Ok(interrupted) = AsyncDisabled::try_from(event) {
        FlowEvent::TracingOff {
            before: Some(RuntimeAddress(interrupted.at())),
        }
    } else if Disabled::try_from(event).is_ok() {
        FlowEvent::TracingOff { before: None }
    } else if Overflow::try_from(event).is_ok() {
        FlowEvent::Overflow {
            tracing: !event.ip_suppressed(),
            at,
        }
    } else {
        FlowEvent::Other
    }
}
